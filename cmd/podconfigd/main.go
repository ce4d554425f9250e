// Command podconfigd decides what should run on this node: it reads the pod sources, merges them, and publishes the result as
// one ordered gRPC stream.
package main

import "github.com/podstream/podstream/internal/podconfigd"

func main() { podconfigd.Program().Main() }
