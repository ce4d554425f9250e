// Command devnode is the program of `make run`: a node on this machine with both daemons and a sample pod, until
// Ctrl-C.
//
// It keeps all its files in one directory, .run by default, and leaves there only the logs and the lock file. The
// environment variable RUNTIME chooses the container runtime: empty for a private containerd (devnode.Default), "sim" for
// the simulated one, or the path of the CRI socket of a running runtime.
package main
