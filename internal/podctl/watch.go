package podctl

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/client/stream"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// watchOptions are the flags of watch.
type watchOptions struct {
	format     podconfigv1.PodFormat // unspecified: what the output needs
	mode       podconfigv1.NotificationMode
	filter     podFilter
	resume     resumption
	heartbeats bool // are printed
	heartbeat  heartbeatOptions
}

func (t *tool) watchCommand() *cobra.Command {
	o := watchOptions{mode: podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL}
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print every change to the pods that should run here, as podconfigd publishes it",
		Long: `Watch prints the pods that should run on this node and then every change to them, one line a pod. Lines with the
same REV belong to one revision, and are printed once it is complete. If the stream breaks or is silent for too long, watch
reconnects and resumes, until Ctrl-C.

--namespace, --selector, --source, --node and --name select pods, as does --filter with all of them in one. A pod must match
every flag that is given, and every selector; of several namespaces, sources, nodes or names, any one.

With --resume, watch resumes where an earlier one stopped. Given a file, it stores its position and its pods there after every
revision, so that the next watch with the same file misses nothing; the file must be a regular one, or not exist yet.
Given a cursor as watch prints it, it has the position only: a podconfigd that doesn't keep that position shows all pods again.`,
		Example: `  podctl watch -n default -l app=web          # the pods of a namespace, with a label
  podctl watch --filter 'source=file,api;node=n1;selector=app=web,tier!=db'
  podctl watch --resume /var/tmp/watch        # resume where the last one stopped
  podctl watch --mode snapshot -o json        # all pods at every change`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := noArguments(cmd, args); err != nil {
				return err
			}
			return o.heartbeat.validate()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return t.watch(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.Var(enumFlag(&o.format, "POD_FORMAT_", "auto"), "format",
		"the `encoding` of the pods: json, protobuf, reference, or auto for the one that suits -o")
	addModeFlag(flags, &o.mode)
	o.filter.addFlags(flags)
	t.addNoHeadersFlag(flags)
	flags.Var(&o.resume, "resume", "resume after this `position`: a file (a path with a slash, or one that exists) or a cursor INSTANCE/REVISION/VIEW")
	flags.BoolVar(&o.heartbeats, "heartbeats", false, "print heartbeats too")
	o.heartbeat.addFlag(flags)
	return cmd
}

// watch runs the command.
func (t *tool) watch(ctx context.Context, o watchOptions) error {
	held, err := o.resume.load()
	if err != nil {
		return err
	}
	w := t.newWatcher(o, held)
	if err := w.run(ctx); err != nil {
		return err
	}
	if cursor := w.held.Cursor(); cursor != nil && o.resume.file == "" {
		t.note("to resume from here: podctl watch --resume %s", stream.FormatCursor(cursor))
	}
	return nil
}

// watcher prints podconfigd's stream, across reconnections.
type watcher struct {
	reconnection
	request *podconfigv1.WatchPodUpdatesRequest // the same for every subscription
	printer updatePrinter
	options watchOptions

	held *stream.Held
	// size has the bounds of held, and of a revision.
	size listSize
	// counts is false if the consumer may hold pods that podctl has no record of.
	counts bool
	// shown is the readiness that former streams reported, which isn't printed again. Nil on the first stream.
	shown map[string]bool
	// synced is true once the current stream's initial state is complete.
	synced bool
}

func (t *tool) newWatcher(o watchOptions, held *stream.Held) *watcher {
	request := &podconfigv1.WatchPodUpdatesRequest{
		Consumer: t.consumerName("podctl"),
		Mode:     o.mode,
		Format:   resolveFormat(o.format, t.output),
		Filter:   o.filter.message,
	}
	o.heartbeat.ask(request)
	return &watcher{
		reconnection: reconnection{tool: t, daemon: t.podconfigd.name},
		request:      request, printer: t.newUpdatePrinter(), options: o, held: held, size: t.newListSize(), counts: o.resume.cursor == nil,
	}
}

// run watches until ctx ends, or an error that a retry can't resolve.
func (w *watcher) run(ctx context.Context) error {
	final := func(err error) bool { return permanent(err) || errors.Is(err, stream.ErrUnknownOp) }
	return w.reconnect(ctx, w.subscribe, final, func(err error) {
		w.tool.note("%v; reconnecting to resume after revision %d", err, w.held.Cursor().GetRevision())
	})
}

// subscribe follows one stream to its end. After an operation that podctl doesn't know, it requests snapshots at once,
// which have none.
func (w *watcher) subscribe(ctx context.Context) error {
	err := w.subscribeOnce(ctx)
	if ctx.Err() == nil && errors.Is(err, stream.ErrUnknownOp) && w.request.GetMode() != podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT {
		w.tool.note("%v; requesting snapshots from now on", err)
		w.request.Mode = podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT
		return w.subscribeOnce(ctx)
	}
	return err
}

// subscribeOnce follows one stream to its end, and resumes after the last one.
func (w *watcher) subscribeOnce(ctx context.Context) error {
	conn, err := w.tool.podconfigd.connect(w.tool.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()

	if w.synced {
		w.shown = w.held.Ready()
	}
	w.live, w.synced = false, false
	err = w.follow(ctx, stream.Config{
		API: podconfigv1.NewPodConfigServiceClient(conn), Request: w.held.Begin(w.request),
		Silence: w.tool.patience(w.options.heartbeat), MaxRevisionBytes: w.size.maxBytes,
	})
	switch {
	case errors.As(err, new(ownError)):
		return err
	case errors.Is(err, stream.ErrTooLarge):
		return ownError{fmt.Errorf("%s at %s: %w", conn.daemon.name, &conn.daemon.endpoint, err)}
	case errors.Is(err, stream.ErrEnded), errors.Is(err, stream.ErrSilent), errors.Is(err, stream.ErrUnknownOp):
		return fmt.Errorf("%s at %s: %w", conn.daemon.name, &conn.daemon.endpoint, err)
	}
	return conn.explain(err)
}

// follow prints a stream until it ends; its error is never nil.
func (w *watcher) follow(ctx context.Context, cfg stream.Config) error {
	s, err := stream.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		r, err := s.Next()
		if err != nil {
			return err
		}
		if err := w.take(r); err != nil {
			return ownError{err}
		}
	}
}

// take prints a revision, and stores the position after it.
func (w *watcher) take(r *stream.Revision) error {
	w.arrived()
	outcome := w.held.Interpret(r)
	w.held.Apply(outcome)
	if err := w.size.check(w.held.Size()); err != nil {
		return err
	}
	w.synced = w.synced || r.Synced != nil
	w.print(r, outcome)
	var cursor *podconfigv1.Cursor
	if outcome.Moved {
		cursor = outcome.Cursor
	}
	if err := w.printer.end(cursor); err != nil {
		return err
	}
	if !outcome.Moved && len(outcome.Ops) == 0 {
		return nil
	}
	return w.options.resume.save(w.held)
}

// print shows the ops as podconfigd sent them, not the outcome for a consumer.
func (w *watcher) print(r *stream.Revision, outcome stream.Outcome) {
	revision := r.Cursor.GetRevision()
	for _, u := range r.Updates {
		held := unknownCount
		if w.counts {
			held = w.held.Count(u.GetSource())
		}
		w.printer.update(revision, u, held)
	}
	// A reconnection that missed nothing prints nothing.
	if r.Synced != nil && (len(r.Updates) > 0 || outcome.Moved || !maps.Equal(w.held.Ready(), w.shown)) {
		w.printer.synced(revision, r.Synced)
	}
	if r.Heartbeat != nil && w.options.heartbeats {
		w.printer.heartbeat(r.Heartbeat)
	}
}
