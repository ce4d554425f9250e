// Command podconfigd decides which pods should run on this node: it reads the pod sources, merges them, and publishes
// the result as one ordered gRPC stream.
package main

import (
	"context"
	"io"

	"k8s.io/klog/v2"

	"github.com/podstream/podstream/internal/podconfigd"
)

func main() {
	program := podconfigd.Program()
	serve := program.Serve
	program.Serve = func(ctx context.Context, opts *podconfigd.Options, stderr io.Writer) error {
		// client-go logs through klog what it doesn't return, such as a token or a certificate that can't be read
		// again.
		log, err := opts.Logger(stderr)
		if err != nil {
			return err
		}
		klog.SetSlogLogger(log.With("from", "client-go"))
		return serve(ctx, opts, stderr)
	}
	program.Main()
}
