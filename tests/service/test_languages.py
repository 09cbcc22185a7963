"""What clients in R and JavaScript send. Without these languages' programs the tests are skipped."""

import json
import shutil
import subprocess

import pytest
from services import parsed_by_command, without_program

pytestmark = pytest.mark.extended
pytest.importorskip("fastapi")

TEXT = "The cat sleeps. Don't go!\nÄrger — naïve „Wörter“ & 100% + 日本.\n"

# `httr::POST(url, body = list(…))` and `RCurl::postForm` send forms as libcurl encodes them.
R_MULTIPART = """
given <- commandArgs(TRUE)
text <- paste(readLines(given[2], encoding = "UTF-8"), collapse = "\\n")
fields <- list(data = paste0(text, "\\n"), tokenizer = "ranges;normalized_spaces", tagger = "", parser = "")
boundary <- "------------------------d74496d66958873e"
part <- function(name) sprintf(
    '--%s\\r\\nContent-Disposition: form-data; name="%s"\\r\\n\\r\\n%s\\r\\n', boundary, name, fields[[name]])
parts <- paste0(sapply(names(fields), part), collapse = "")
body <- charToRaw(enc2utf8(paste0(parts, "--", boundary, "--\\r\\n")))
head <- paste0(
    "POST /process HTTP/1.1\\r\\nHost: localhost\\r\\n",
    "User-Agent: libcurl/7.88.1 r-curl/5.0.0 httr/1.4.6\\r\\n",
    "Accept-Encoding: deflate, gzip\\r\\n",
    "Accept: application/json, text/xml, application/xml, */*\\r\\n",
    "Expect: 100-continue\\r\\nConnection: close\\r\\nContent-Length: ", length(body), "\\r\\n",
    "Content-Type: multipart/form-data; boundary=", boundary, "\\r\\n\\r\\n")
connection <- socketConnection("127.0.0.1", as.integer(given[1]), blocking = TRUE, open = "r+b", timeout = 60)
writeBin(charToRaw(head), connection)
stopifnot(grepl("100 Continue", readLines(connection, 1)), readLines(connection, 1) == "")
writeBin(body, connection)
while (readLines(connection, 1) != "") {}
answer <- raw()
while (length(got <- readBin(connection, "raw", 65536)) > 0) answer <- c(answer, got)
cat(rawToChar(answer))
"""
R_QUERY = """
given <- commandArgs(TRUE)
text <- paste0(paste(readLines(given[2], encoding = "UTF-8"), collapse = "\\n"), "\\n")
parts <- "&tokenizer=ranges;normalized_spaces&tagger&parser"
address <- paste0("http://127.0.0.1:", given[1], "/process?data=", URLencode(text, reserved = TRUE), parts)
writeLines(readLines(address, encoding = "UTF-8"), useBytes = TRUE)
"""
NODE = """
const { readFileSync } = require('node:fs');
const [port, file, kind] = process.argv.slice(2);
const fields = { tokenizer: 'ranges;normalized_spaces', tagger: '', parser: '' };
const data = readFileSync(file, 'utf8');
let body;
if (kind === 'multipart') {
    body = new FormData();
    for (const [name, value] of Object.entries(fields)) body.append(name, value);
    body.append('data', new Blob([data], { type: 'text/plain' }), 'letter.txt');
} else {
    body = new URLSearchParams({ ...fields, data });
}
fetch(`http://127.0.0.1:${port}/process`, { method: 'POST', body })
    .then((answer) => answer.json())
    .then((answer) => process.stdout.write(JSON.stringify(answer)));
"""


def run(program, source, name, service, folder, *arguments):
    """The JSON that a script prints for the text."""
    if not shutil.which(program):
        pytest.skip(f"there is no {program} here")
    (folder / "text").write_text(TEXT, encoding="utf-8")
    (folder / name).write_text(source, encoding="utf-8")
    command = [program, folder / name, str(service.port), folder / "text", *arguments]
    done = subprocess.run(command, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.parametrize("source", [R_MULTIPART, R_QUERY], ids=["multipart", "query"])
def test_r_gets_what_parse_writes(source, service, model, tmp_path):
    answer = run("Rscript", source, "client.R", service, tmp_path)
    assert without_program(answer["result"]) == parsed_by_command(model, TEXT, "--text")


@pytest.mark.parametrize("kind", ["multipart", "urlencoded"])
def test_javascript_gets_what_parse_writes(kind, service, model, tmp_path):
    answer = run("node", NODE, "client.js", service, tmp_path, kind)
    assert without_program(answer["result"]) == parsed_by_command(model, TEXT, "--text")
