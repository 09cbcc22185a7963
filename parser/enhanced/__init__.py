"""Enhanced dependencies: a transducer from trees to graphs, learned from the trees and the DEPS of train."""
