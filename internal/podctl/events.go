package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podstream/podstream/internal/podctl/kubeobject"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// eventsOptions are the flags of events.
type eventsOptions struct {
	pods podsOptions
	// names has the pod's name. Empty: all pods.
	names  []string
	follow bool
	// types are the types of events, Normal or Warning. Empty: all.
	types []string
	// fields selects events. Nil: all.
	fields fields.Selector
	// objects is set if documents are v1.Events, as kubectl's.
	objects bool
}

// selects reports whether an event is printed.
func (o eventsOptions) selects(e *podexecv1.PodEvent) bool {
	return (len(o.types) == 0 || slices.ContainsFunc(o.types, func(t string) bool { return strings.EqualFold(t, e.GetType()) })) &&
		(o.fields == nil || o.fields.Matches(kubeobject.EventFields(e)))
}

func (t *tool) eventsCommand() *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use:   "events [POD]",
		Short: "Show what happened to the pods here",
		Long: `Events shows the events of the pods on this node, oldest first, in the kubelet's words. Podexecd keeps the last few thousand of
them in memory. With --watch it continues with new events, until Ctrl-C.`,
		Example: `  podctl events web
  podctl events -n kube-system --watch`,
		Args: func(cmd *cobra.Command, args []string) error {
			return errors.Join(atMostOnePod(cmd, args), t.checkSorted(o.follow))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return t.runEvents(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	o.pods.addFlags(flags)
	t.addListFlags(flags)
	flags.StringSliceVar(&o.types, "types", nil, "only events of these `types`: Normal, Warning")
	flags.BoolVarP(&o.follow, "watch", "w", false, "continue with new events")
	return cmd
}

func (t *tool) runEvents(ctx context.Context, o eventsOptions) error {
	q := t.query(ctx, o.pods, o.names)
	printer, labelled := t.newEventPrinter(o), t.newLabelled(q.selector)
	err := t.watchEvents(ctx, q.filter, o.follow, func(e *podexecv1.PodEvent) error {
		events, err := labelledOnly(ctx, labelled, []*podexecv1.PodEvent{e}, (*podexecv1.PodEvent).GetRef)
		if err != nil || len(events) == 0 || !o.selects(e) {
			return err
		}
		return printer.print(e)
	})
	switch {
	case o.follow && ctx.Err() != nil:
		return nil //nolint:nilerr // The user has ended it: that is no failure.
	case err != nil:
		return err
	case !printer.printed && t.output.IsTable():
		t.note("no events found%s", inNamespaces(q.filter))
	}
	return printer.end()
}

// watchEvents calls take for each event. Without follow, it ends after the events that podexecd keeps, and has the
// time limit of a list.
func (t *tool) watchEvents(
	ctx context.Context, filter *podconfigv1.PodFilter, follow bool, take func(*podexecv1.PodEvent) error,
) error {
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	limit := context.WithCancel
	if !follow {
		limit = t.listContext
	}
	ctx, cancel := limit(ctx)
	defer cancel()
	stream, err := podexecv1.NewPodExecServiceClient(conn).WatchEvents(ctx, &podexecv1.WatchEventsRequest{Filter: filter, Follow: follow})
	if err != nil {
		return conn.explain(err)
	}
	size := t.newListSize()
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && !follow:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%s at %s ended the stream", conn.daemon.name, &conn.daemon.endpoint)
		case err != nil:
			return conn.explain(err)
		}
		if !follow {
			// The events are kept until all are there.
			if err := size.add(m); err != nil {
				return err
			}
		}
		if err := take(m.GetEvent()); err != nil {
			return err
		}
	}
}
