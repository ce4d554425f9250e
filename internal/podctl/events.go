package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/util/duration"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// eventsOptions are the flags of events.
type eventsOptions struct {
	pods podsOptions
	// pod is the pod's name. Empty: all pods.
	pod    string
	follow bool
}

func (t *tool) eventsCommand() *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use:   "events [POD]",
		Short: "Show what happened to the pods here",
		Long: `Events shows what happened to the pods on this node, oldest first, in the words of the kubelet's events. Podexecd remembers the
last few thousand of them, since it was started. With --watch it goes on with what happens, until Ctrl-C.`,
		Example: `  podctl events web
  podctl events -n kube-system --watch`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.pod = args[0]
			}
			return t.runEvents(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.pods.namespace, "namespace", "n", "", "only the pods of this `namespace`")
	flags.BoolVarP(&o.pods.allNamespaces, "all-namespaces", "A", false, "the pods of all namespaces, which is the default; wins over -n")
	flags.BoolVarP(&o.follow, "watch", "w", false, "go on with what happens")
	return cmd
}

func (t *tool) runEvents(ctx context.Context, o eventsOptions) error {
	filter := o.pods.filter()
	if o.pod != "" {
		var p podName
		p.set(o.pod)
		if filter == nil {
			filter = &podconfigv1.PodFilter{}
		}
		filter.Names = t.names(p)
	}
	printer := t.newEventPrinter()
	err := t.watchEvents(ctx, filter, o.follow, func(e *podexecv1.PodEvent) error { return printer.print(e, o.follow) })
	switch {
	case o.follow && ctx.Err() != nil:
		return nil //nolint:nilerr // The user has ended it: that is no failure.
	case err != nil:
		return err
	case !printer.printed && t.output.isTable():
		t.note("no events found")
	}
	return printer.end()
}

// watchEvents calls take for each event; without follow, for those that podexecd remembers, in the time that a list may take.
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
	// table is nil for documents.
	table     *table
	documents *documents
	printed   bool
}

func (t *tool) newEventPrinter() *eventPrinter {
	p := &eventPrinter{tool: t}
	if !t.output.isTable() {
		p.documents = &documents{out: t.Stdout, output: t.output, stream: true}
		return p
	}
	header := []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}
	if t.output == outputWide {
		header = []string{"NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "SUBOBJECT", "MESSAGE", "FIRST SEEN", "COUNT"}
	}
	p.table = newTable(t.Stdout, header...)
	return p
}

// print prints one event; in a table with the next flush, unless it has to be seen now.
func (p *eventPrinter) print(e *podexecv1.PodEvent, now bool) error {
	p.printed = true
	if p.table == nil {
		return p.documents.print(protoValue{e})
	}
	last, object := ageOf(p.tool.Clock.Now(), e.GetLastTime()), "pod/"+e.GetRef().GetName()
	if p.tool.output == outputWide {
		p.table.row(e.GetRef().GetNamespace(), last, e.GetType(), e.GetReason(), object, containerField(e.GetContainer()), e.GetMessage(),
			ageOf(p.tool.Clock.Now(), e.GetFirstTime()), strconv.Itoa(int(e.GetCount())))
	} else {
		p.table.row(e.GetRef().GetNamespace(), last, e.GetType(), e.GetReason(), object, e.GetMessage())
	}
	if now {
		return p.table.flush()
	}
	return nil
}

func (p *eventPrinter) end() error {
	if p.table == nil {
		return nil
	}
	return p.table.flush()
}

// containerField is what v1.Event calls the part of the pod that it is about.
func containerField(name string) string {
	if name == "" {
		return ""
	}
	return "spec.containers{" + name + "}"
}

// ageOf is the time since then; empty if that isn't known.
func ageOf(now time.Time, then *timestamppb.Timestamp) string {
	if then == nil {
		return ""
	}
	return duration.HumanDuration(now.Sub(then.AsTime()))
}
