// Package client subscribes to podconfigd: it is what a consumer of the pod stream imports.
//
// Watch delivers revisions whole and in order, to one function, from one goroutine. When the stream breaks it subscribes again
// with backoff and resumes where the last delivered revision ended: across restarts of podconfigd nothing is missing and
// nothing comes twice. A consumer that keeps what it was given across its own restarts passes it back in WatchOptions.
//
//	c, err := client.New(client.Config{Endpoint: client.DefaultEndpoint, Consumer: "my-agent"})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	return c.Watch(ctx, client.WatchOptions{}, func(ctx context.Context, e client.Event) error {
//		for _, op := range e.Ops {
//			fmt.Println(op.Op, op.Source, len(op.Pods))
//		}
//		return nil
//	})
//
// The client does a consumer's duties as far as they can be done for it: it drops a revision that didn't arrive whole, turns a SET
// into the ops that lead there, removes what is absent once its source is ready, and asks for snapshots where podconfigd says what
// it doesn't understand. What is left to the consumer: an ADD of a pod that it holds is an update, and a RESTORE adds unless the
// pod is being deleted or known to be terminal.
//
// Beside Watch there are ReportApplied and ReportRejected, by which a consumer says what it made of an event, and API for all other
// calls. Package stream beneath it is for those who want podconfig.v1's own messages and their own way of retrying.
//
// A Watch runs in its caller's goroutine, and handle is called from there. Beside that there are only gRPC's goroutines, which end
// with Close.
package client
