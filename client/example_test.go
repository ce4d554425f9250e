package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Watch prints changes until the initial state is complete.
func ExampleClient_Watch() {
	endpoint, stop := examplePodconfigd()
	defer stop()

	c, err := client.New(client.Config{Endpoint: endpoint, Consumer: "example"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer func() { _ = c.Close() }()

	done := errors.New("seen enough")
	err = c.Watch(context.Background(), client.WatchOptions{}, func(_ context.Context, e client.Event) error {
		for _, change := range e.Ops {
			for _, pod := range change.Pods {
				if pod.Object == nil { // of a REMOVE only the reference comes
					fmt.Println(change.Op, pod.Source, pod.Name)
					continue
				}
				fmt.Println(change.Op, pod.Source, pod.Name, pod.Object.Spec.Containers[0].Image)
			}
		}
		if e.Synced {
			fmt.Println("synced")
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// POD_OPERATION_ADD file db postgres:17
	// POD_OPERATION_ADD file web nginx:1
	// synced
}

// A consumer that stores its pods and the cursor of the last applied event gets only the difference after a restart.
func ExampleWatchOptions() {
	endpoint, stop := examplePodconfigd()
	defer stop()

	c, err := client.New(client.Config{Endpoint: endpoint})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer func() { _ = c.Close() }()

	// This comes from the consumer's own store; the pods are those of a podconfigd that has lost its history since.
	kept := client.WatchOptions{
		ResumeAfter: &podconfigv1.Cursor{InstanceId: "before-restart", Revision: 17},
		Known:       []client.Pod{{UID: "old", Namespace: "default", Name: "old", Source: "file"}},
	}
	done := errors.New("in step")
	err = c.Watch(context.Background(), kept, func(_ context.Context, e client.Event) error {
		if e.Synced {
			return done
		}
		for _, change := range e.Ops {
			for _, pod := range change.Pods {
				fmt.Println(change.Op, pod.Name)
			}
		}
		return nil
	})
	if !errors.Is(err, done) {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// POD_OPERATION_REMOVE old
	// POD_OPERATION_ADD db
	// POD_OPERATION_ADD web
}

// A consumer restarts. It passes its stored state to the next Watch, which resumes after the last event.
func ExampleWatchOptions_restart() {
	endpoint, stop := examplePodconfigd()
	defer stop()

	// What a real consumer would write into its store with each event, in one transaction.
	kept := map[types.UID]client.Pod{}
	var cursor *podconfigv1.Cursor

	// live is one life of the consumer: it ends when the initial state is complete.
	done := errors.New("in step")
	live := func() (received int) {
		c, err := client.New(client.Config{Endpoint: endpoint, Consumer: "example"})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 0
		}
		defer func() { _ = c.Close() }()
		opts := client.WatchOptions{ResumeAfter: cursor, Known: slices.Collect(maps.Values(kept))}
		err = c.Watch(context.Background(), opts, func(_ context.Context, e client.Event) error {
			for _, change := range e.Ops {
				received += len(change.Pods)
				for _, pod := range change.Pods {
					if change.Op == client.Remove {
						delete(kept, pod.UID)
					} else {
						kept[pod.UID] = pod
					}
				}
			}
			cursor = e.Cursor
			if e.Synced {
				return done
			}
			return nil
		})
		if !errors.Is(err, done) {
			fmt.Fprintln(os.Stderr, err)
		}
		return received
	}
	fmt.Println("the first life is told of", live(), "pods")
	fmt.Println("the second life is told of", live(), "pods and holds", len(kept))
	// Output:
	// the first life is told of 2 pods
	// the second life is told of 0 pods and holds 2
}

// A consumer of some pods requests only those.
func ExampleWatchOptions_filter() {
	endpoint, stop := exampleFiltered()
	defer stop()

	c, err := client.New(client.Config{Endpoint: endpoint})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer func() { _ = c.Close() }()

	web := &podconfigv1.PodFilter{Namespaces: []string{"default"}, LabelSelector: "app=web"}
	done := errors.New("seen enough")
	err = c.Watch(context.Background(), client.WatchOptions{Filter: web}, func(_ context.Context, e client.Event) error {
		if e.Synced {
			return done
		}
		for _, change := range e.Ops {
			// None, if all that it says is that its source has become ready.
			for _, pod := range change.Pods {
				fmt.Println(change.Op, pod.Name)
			}
		}
		return nil
	})
	if !errors.Is(err, done) {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// POD_OPERATION_ADD web
}

// A consumer reports what it applied, so that ListConsumers shows its position and the pods that it refused.
func ExampleClient_ReportApplied() {
	endpoint, stop := exampleFiltered()
	defer stop()

	c, err := client.New(client.Config{Endpoint: endpoint, Consumer: "example"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer func() { _ = c.Close() }()

	reported := errors.New("reported")
	err = c.Watch(context.Background(), client.WatchOptions{}, func(ctx context.Context, e client.Event) error {
		var refused []client.PodError
		for _, change := range e.Ops {
			for _, pod := range change.Pods {
				if pod.Object != nil && pod.Object.Spec.HostNetwork {
					refused = append(refused, client.PodError{
						UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, Reason: "HostNetwork", Message: "this node has none to give",
					})
				}
			}
		}
		if err := c.ReportApplied(ctx, e.Cursor, refused); err != nil {
			return err
		}
		fmt.Println("applied revision", e.Cursor.GetRevision(), "but for", len(refused), "pods")
		return reported
	})
	if !errors.Is(err, reported) {
		fmt.Fprintln(os.Stderr, err)
	}
	// Output:
	// applied revision 1 but for 0 pods
}

// API makes the calls that aren't streams.
func ExampleClient_API() {
	endpoint, stop := examplePodconfigd()
	defer stop()

	c, err := client.New(client.Config{Endpoint: endpoint})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer func() { _ = c.Close() }()

	resp, err := c.API().ListSources(context.Background(), &podconfigv1.ListSourcesRequest{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, s := range resp.GetSources() {
		fmt.Println(s.GetName(), s.GetReady(), s.GetPodCount())
	}
	// Output:
	// file true 2
	// api false 0
}

// examplePodconfigd is a podconfigd with two pods of the source file, for the examples.
func examplePodconfigd() (endpoint string, stop func()) {
	p, err := newPlace()
	if err != nil {
		panic(err)
	}
	d := newDaemon()
	d.set("file", "web.yaml: web(image=nginx:1)\ndb.yaml: db(image=postgres:17)")
	end, err := d.serve(p)
	if err != nil {
		panic(err)
	}
	return p.endpoint, func() {
		end()
		p.remove()
	}
}

// exampleFiltered is a podconfigd that has one pod for every filter, and accepts reports.
func exampleFiltered() (endpoint string, stop func()) {
	p, err := newPlace()
	if err != nil {
		panic(err)
	}
	script := newScript(func(s serverStream) error {
		send(s, update(0, client.Add, "web"))
		send(s, update(1, client.Add)) // its source is ready
		send(s, synced(1))
		<-s.Context().Done()
		return broken
	})
	end, err := script.serve(p)
	if err != nil {
		panic(err)
	}
	return p.endpoint, func() {
		end()
		p.remove()
	}
}
