// Package stream is one subscription to podconfigd in the messages of podconfig.v1, and the state that a consumer
// holds across its subscriptions.
//
// A Stream returns whole revisions. It collects messages until their cursor arrives, joins the fragments of one op,
// and drops an incomplete revision when the stream breaks. Held keeps the references of the pods, the cursor and the
// readiness that the consumer received. It computes the ops that a SET stands for, and the REMOVE of a pod that a SET
// lacked, once that is certain. It also fills in the next request, so that the next Stream resumes where the last one
// ended.
//
// The positions in the cursor are claims: a podconfigd that is behind them, or doesn't know them, must not take the consumer
// back (G11). A podconfigd of this version doesn't try. Check detects one that does, as it is of an older version or doesn't
// work as it should, before anything of the revision is applied.
//
//	held := stream.NewHeld(nil, nil)
//	for { // with a pause between two attempts
//		s, err := stream.Open(ctx, stream.Config{API: api, Request: held.Begin(request)})
//		...
//		for {
//			revision, err := s.Next()
//			...
//			err = held.Check(revision)
//			... // on an error, end the stream, and use another podconfigd if there are several
//			outcome := held.Interpret(revision)
//			... // apply outcome.Ops
//			held.Apply(outcome)
//		}
//	}
//
// ObjectStream and HeldObjects are the same for the ConfigMaps and Secrets that the pods refer to.
//
// Package client adds retries and decodes the pods. podctl watch prints the stream. A proxy, a recorder, or a
// consumer with its own retries uses this package directly.
//
// The package starts no goroutines, and never retries, logs, or decodes a pod or an object.
package stream
