"""Questions about pictures of simple things (Johnson et al. 2017): programs, scenes and answers."""
