package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/podstream/podstream/client"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Watch prints what changes until the initial state is complete.
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

// A consumer that keeps its pods and the cursor of the last event that it applied gets only the difference when it is started
// again.
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
		ResumeAfter: &podconfigv1.Cursor{InstanceId: "an earlier life", Revision: 17},
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

// The calls that aren't streams are made on the service itself.
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
