package podctl

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// objectOptions are the flags of objects.
type objectOptions struct {
	filter    podFilter
	follow    bool
	heartbeat heartbeatOptions
}

func (t *tool) objectsCommand() *cobra.Command {
	var o objectOptions
	cmd := &cobra.Command{
		Use:   "objects",
		Short: "Show the ConfigMaps and Secrets that the pods refer to",
		Long: `Objects shows the ConfigMaps and Secrets that the desired pods of this node refer to, each with the digest of its content, and
those that are missing. With --watch it continues with every change, across reconnections, until Ctrl-C. For static pods it shows
their claims too, with the PersistentVolumes and CSIDrivers of those.

With -o json and -o yaml each object comes with its content, also that of Secrets. The flags that select pods are those of watch.`,
		Example: `  podctl objects -n default
  podctl objects --name web-node1 -o yaml   # with what is in them
  podctl objects --watch`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := noArguments(cmd, args); err != nil {
				return err
			}
			return o.heartbeat.validate()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return t.newObjectLister(o).run(cmd.Context()) },
	}
	o.filter.addFlags(cmd.Flags())
	t.addNoHeadersFlag(cmd.Flags())
	cmd.Flags().BoolVarP(&o.follow, "watch", "w", false, "continue with every change")
	o.heartbeat.addFlag(cmd.Flags())
	return cmd
}

// objectLister prints one podconfigd's objects across any number of connections.
type objectLister struct {
	reconnection
	options objectOptions
	request *podconfigv1.WatchObjectsRequest // the same for every subscription
	printer *objectPrinter

	held *stream.HeldObjects
	// size has the bounds of held, and of a revision. Of a list it counts the objects.
	size listSize
}

func (t *tool) newObjectLister(o objectOptions) *objectLister {
	request := &podconfigv1.WatchObjectsRequest{
		Consumer: t.consumerName("podctl-objects"), Filter: o.filter.message, Format: podconfigv1.PodFormat_POD_FORMAT_JSON,
		Kinds: []podconfigv1.ObjectKind{
			podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME_CLAIM, podconfigv1.ObjectKind_OBJECT_KIND_PERSISTENT_VOLUME,
			podconfigv1.ObjectKind_OBJECT_KIND_CSI_DRIVER,
		},
	}
	if t.output.IsTable() {
		request.Format = podconfigv1.PodFormat_POD_FORMAT_REFERENCE
	}
	if o.heartbeat.interval > 0 {
		request.HeartbeatInterval = durationpb.New(o.heartbeat.interval)
	}
	return &objectLister{
		reconnection: reconnection{tool: t, daemon: t.podconfigd.name},
		options:      o, request: request, printer: t.newObjectPrinter(o.follow), held: stream.NewHeldObjects(nil, nil), size: t.newListSize(),
	}
}

// run lists, or watches until ctx ends or an error that a retry can't resolve.
func (l *objectLister) run(ctx context.Context) error {
	if !l.options.follow {
		ctx, cancel := l.tool.listContext(ctx)
		defer cancel()
		if err := l.subscribe(ctx); !errors.Is(err, errListed) {
			return err
		}
		return nil
	}
	return l.reconnect(ctx, l.subscribe, permanent, func(err error) {
		l.tool.note("%v; reconnecting to resume after revision %d", err, l.held.Cursor().GetRevision())
	})
}

// errListed ends the stream of a list that is complete.
var errListed = errors.New("that is all")

// subscribe follows one stream to its end, and resumes after the last one.
func (l *objectLister) subscribe(ctx context.Context) error {
	conn, err := l.tool.podconfigd.connect(l.tool.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	err = l.followStream(ctx, stream.ObjectConfig{
		API: podconfigv1.NewPodConfigServiceClient(conn), Request: l.held.Begin(l.request), Silence: l.tool.patience(l.options.heartbeat),
		MaxRevisionBytes: l.size.maxBytes,
	})
	switch {
	case errors.As(err, new(ownError)), errors.Is(err, errListed):
		return err
	case errors.Is(err, stream.ErrTooLarge):
		return ownError{fmt.Errorf("%s at %s: %w", conn.daemon.name, &conn.daemon.endpoint, err)}
	case errors.Is(err, stream.ErrUnknownOp):
		l.held.Anew() // prose:ok
		fallthrough
	case errors.Is(err, stream.ErrEnded), errors.Is(err, stream.ErrSilent):
		return fmt.Errorf("%s at %s: %w", conn.daemon.name, &conn.daemon.endpoint, err)
	}
	return conn.explain(err)
}

// followStream prints a stream until it ends, or the list is complete.
func (l *objectLister) followStream(ctx context.Context, cfg stream.ObjectConfig) error {
	s, err := stream.OpenObjects(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		revision, err := s.Next()
		if err != nil {
			return err
		}
		l.arrived()
		outcome := l.held.Interpret(revision)
		if err := l.print(outcome.Ops); err != nil {
			return ownError{err}
		}
		l.held.Apply(outcome)
		if err := l.size.check(l.held.Size()); err != nil {
			return ownError{err}
		}
		if revision.Synced != nil && !l.options.follow {
			l.noteUnready(revision.Synced)
			if err := l.printer.listed(); err != nil {
				return ownError{err}
			}
			return errListed
		}
	}
}

// print prints the ops of a revision.
func (l *objectLister) print(ops []*podconfigv1.ObjectUpdate) error {
	for _, u := range ops {
		for _, o := range u.GetObjects() {
			// A list is kept until it is complete.
			if !l.options.follow {
				if err := l.size.add(o); err != nil {
					return err
				}
			}
			if err := l.printer.object(u.GetOp(), o); err != nil {
				return err
			}
		}
	}
	return l.printer.end()
}

// noteUnready prints that a list may not be complete.
func (l *objectLister) noteUnready(synced *podconfigv1.Synced) {
	for _, s := range synced.GetSources() {
		if !s.GetReady() {
			l.tool.note("source %s isn't ready: there may be more objects", s.GetName())
		}
	}
	if len(l.held.Known()) == 0 {
		l.tool.note("no pod refers to a ConfigMap or Secret that podconfigd knows")
	}
}
