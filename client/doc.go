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
// The client does a consumer's duties as far as they can be done for it: it drops a revision that didn't arrive whole, and
// turns a SET into the ops that lead there. What is left to the consumer: an ADD of a pod that it holds is an update, and a
// RESTORE adds unless the pod is being deleted or known to be terminal.
package client
