// Package client subscribes to podconfigd. A consumer of the pod stream imports it.
//
// Watch delivers whole revisions, in order, to one function. When the stream breaks, Watch subscribes again with
// backoff and resumes after the last delivered revision: no change is missing or delivered twice, also when
// podconfigd restarts. A consumer that stores its pods and cursor passes them in WatchOptions when it starts again.
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
// The client does most of a consumer's duties. It drops a revision that arrived in part, turns a SET into the ops
// that lead to it, removes absent pods once their source is ready, and requests snapshots after an op that it can't
// read. It applies nothing that would take the consumer back in a source's time, whichever podconfigd it comes from (G11
// in podconfig.proto). Two duties stay with the consumer: an ADD of a pod that it holds is an update, and a RESTORE adds a pod
// unless that pod is being deleted or is known to be terminal.
//
// WatchObjects delivers the ConfigMaps and Secrets of the pods in the same way. ReportApplied and ReportRejected
// report to podconfigd how the consumer handled an event. API returns the gRPC client for all other calls. Package
// stream, below this one, serves consumers that need the messages of podconfig.v1 or their own retries.
//
// A podconfigd that sends what it must not is given up for another one: a revision or pods without end, content of another
// pod, an invalid position. TestLyingGateway lists such lies, and what a consumer does.
//
// Config.Endpoint may list several podconfigds, or have a host's name with several addresses. The Client uses one of
// them at a time, for all its streams. One that is behind the consumer is tried last for a minute.
//
// Watch calls its function from the goroutine that called Watch. The only other goroutines are gRPC's, and one that
// checks the health of several podconfigds. They end with Close.
package client
