// Package stream is one subscription to podconfigd as podconfig.v1's own messages, and what a consumer holds across its
// subscriptions.
//
// A Stream hands over whole revisions: it collects messages until their cursor comes, joins the fragments of one op, and drops
// what is incomplete when the stream breaks. Held remembers the pods, the cursor and the readiness that a consumer was given. It
// does a consumer's duties as far as they can be done without knowing what a pod is for: it tells what a SET changes, and when
// what was missing from one is gone for good; and it fills in the next request, so that the next Stream goes on where the last one
// ended.
//
//	held := stream.NewHeld(nil, nil)
//	for { // and pause between two tries
//		s, err := stream.Open(ctx, stream.Config{API: api, Request: held.Begin(request)})
//		...
//		for {
//			revision, err := s.Next()
//			...
//			outcome := held.Interpret(revision)
//			... // apply outcome.Ops
//			held.Apply(outcome)
//		}
//	}
//
// ObjectStream and HeldObjects are the same for the ConfigMaps and Secrets that the pods refer to.
//
// Package client does this with retries and with decoded pods, and podctl watch to print what comes; whoever writes a proxy, a
// recorder or a consumer with another idea of retrying uses this package itself.
//
// It starts no goroutines and never retries, logs, or decodes a pod or an object.
package stream
