package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// eventsOptions are the flags of events.
type eventsOptions struct {
	pods podsOptions
	// names has the pod's name. Empty: all pods.
	names  []string
	follow bool
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
		Args: atMostOnePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return t.runEvents(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	o.pods.addFlags(flags)
	flags.BoolVarP(&o.follow, "watch", "w", false, "continue with new events")
	return cmd
}

func (t *tool) runEvents(ctx context.Context, o eventsOptions) error {
	q := t.query(ctx, o.pods, o.names)
	printer, labelled := t.newEventPrinter(o.follow), t.newLabelled(q.selector)
	err := t.watchEvents(ctx, q.filter, o.follow, func(e *podexecv1.PodEvent) error {
		events, err := labelledOnly(ctx, labelled, []*podexecv1.PodEvent{e}, (*podexecv1.PodEvent).GetRef)
		if err != nil || len(events) == 0 {
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
		if err := take(m.GetEvent()); err != nil {
			return err
		}
	}
}

// eventPrinter prints events as rows, or as documents.
type eventPrinter struct {
	tool *tool
	// follow is set if events are printed as they come, and not all at the end.
	follow bool
	// table is nil for documents.
	table     *render.Table
	documents *render.Documents
	// list is printed by end as one document.
	list    []render.Proto
	printed bool
}

func (t *tool) newEventPrinter(follow bool) *eventPrinter {
	p := &eventPrinter{tool: t, follow: follow}
	if !t.output.IsTable() {
		p.documents = &render.Documents{Out: t.Stdout, Format: t.output, Stream: follow}
		return p
	}
	header := []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "CONTAINER", "MESSAGE"}
	if t.output == render.WideFormat {
		header = []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "SUBOBJECT", "MESSAGE", "FIRST SEEN", "COUNT"}
	}
	p.table = render.NewTable(t.Stdout, header...)
	return p
}

// print prints one event: in a table with the next flush, or at once if follow is set.
func (p *eventPrinter) print(e *podexecv1.PodEvent) error {
	p.printed = true
	switch {
	case p.table == nil && p.follow:
		return p.documents.Print(render.Proto{Message: e})
	case p.table == nil:
		p.list = append(p.list, render.Proto{Message: e})
		return nil
	}
	last, object := podsummary.Age(p.tool.Clock.Now(), e.GetLastTime()), "pod/"+e.GetRef().GetName()
	if p.tool.output == render.WideFormat {
		p.table.Row(e.GetRef().GetNamespace(), last, e.GetType(), e.GetReason(), object, containerField(e.GetContainer()), e.GetMessage(),
			podsummary.Age(p.tool.Clock.Now(), e.GetFirstTime()), strconv.Itoa(int(e.GetCount())))
	} else {
		p.table.Row(e.GetRef().GetNamespace(), last, e.GetType(), e.GetReason(), object, e.GetContainer(), e.GetMessage())
	}
	if p.follow {
		return p.table.Flush()
	}
	return nil
}

func (p *eventPrinter) end() error {
	switch {
	case p.table != nil:
		return p.table.Flush()
	case p.follow:
		return nil
	}
	return p.documents.Print(struct {
		Events []render.Proto `json:"events"`
	}{render.OrEmpty(p.list)})
}

// containerField returns the field path of v1.Event for the container.
func containerField(name string) string {
	if name == "" {
		return ""
	}
	return "spec.containers{" + name + "}"
}
