package podctl

import (
	"context"
	"errors"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func (t *tool) describeCommand() *cobra.Command {
	var p podName
	cmd := &cobra.Command{
		Use:   "describe POD",
		Short: "Tell all about a pod, and why it waits",
		Long: `Describe tells what podconfigd wants of a pod, what podexecd has made of it and what happened to it; and at the end in plain words
what it waits for. If one of the daemons is away it tells what the other one knows.

The end of a static pod's name, which is the node's, may be left out.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.set(args[0])
			return t.runDescribe(cmd.Context(), p)
		},
	}
	p.addNamespaceFlag(cmd)
	return cmd
}

// knowledge is what could be found out of the pods of one name.
type knowledge struct {
	pairs  []*pair
	events []*podexecv1.PodEvent
	// have tells which daemons answered; withEvents, whether podexecd told its events.
	have       answered
	withEvents bool
}

func (t *tool) runDescribe(ctx context.Context, p podName) error {
	known, failed := t.find(ctx, p)
	switch {
	case len(known.pairs) == 0 && failed != nil:
		return failed
	case len(known.pairs) == 0:
		return t.noSuchPod(ctx, p)
	}
	d := newDescription(t.Stdout, t.Clock.Now())
	for i, pair := range known.pairs {
		if i > 0 {
			d.blank()
		}
		d.pod(pair, known)
	}
	return errors.Join(d.flush(), failed)
}

// find asks both daemons at once. The error tells of what is missing.
func (t *tool) find(ctx context.Context, p podName) (knowledge, error) {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	var (
		wg                               sync.WaitGroup
		desired                          []*podconfigv1.Pod
		observed                         []*podexecv1.ObservedPod
		known                            knowledge
		desiredErr, observeErr, eventErr error
	)
	wg.Go(func() { desired, desiredErr = t.listDesired(ctx, t.filterOf(p)) })
	wg.Go(func() { observed, observeErr = t.listObserved(ctx, t.filterOf(p)) })
	wg.Go(func() {
		eventErr = t.watchEvents(ctx, t.filterOf(p), false, func(e *podexecv1.PodEvent) error {
			known.events = append(known.events, e)
			return nil
		})
	})
	wg.Wait()
	known.have = answered{podconfigd: desiredErr == nil, podexecd: observeErr == nil}
	known.withEvents = eventErr == nil
	// One that is older than this podctl tells no events, and the rest all the same.
	if observeErr != nil || status.Code(eventErr) == codes.Unimplemented {
		eventErr = nil
	}
	pairs, undecodable := join(desired, observed)
	known.pairs = meant(pairs, t.names(p), func(p *pair) string { return p.ref.GetName() })
	return known, errors.Join(append([]error{desiredErr, observeErr, eventErr}, undecodable...)...)
}

// eventsOf are the events of one pod.
func (k knowledge) eventsOf(ref *podconfigv1.PodRef) []*podexecv1.PodEvent {
	var own []*podexecv1.PodEvent
	for _, e := range k.events {
		if e.GetRef().GetUid() == ref.GetUid() {
			own = append(own, e)
		}
	}
	return own
}

// unasked says which daemon's half of the description is missing.
func (k knowledge) unasked() string {
	switch {
	case !k.have.podconfigd:
		return "podconfigd didn't answer: what is desired isn't known"
	case !k.have.podexecd:
		return "podexecd didn't answer: what runs isn't known"
	default:
		return ""
	}
}
