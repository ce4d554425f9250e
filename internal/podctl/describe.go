package podctl

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func (t *tool) describeCommand() *cobra.Command {
	var p podName
	var selector labelSelector
	var mirrors bool
	cmd := &cobra.Command{
		Use:   "describe (POD... | -l SELECTOR)",
		Short: "Show all about a pod, and why it waits",
		Long: `Describe shows the pod that podconfigd wants, the state that podexecd observes, the pod's events, and at the end the reasons for
which the pod waits. If one daemon doesn't answer, it shows the other one's part.

The end of a static pod's name, which is the node's, may be left out.`,
		Example: "  podctl describe web\n  podctl describe -n shop -l app=web",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := describable(args); err != nil {
				return err
			}
			return podsOrSelector(cmd, args, math.MaxInt, selector)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			names := make([]podName, len(args))
			for i, arg := range args {
				names[i].namespace = p.namespace
				names[i].set(arg)
			}
			if selector != "" {
				var err error
				if names, err = t.selectedNames(cmd.Context(), p.namespace, selector); err != nil {
					return err
				}
			}
			return t.runDescribe(cmd.Context(), names, mirrors)
		},
	}
	p.addNamespaceFlag(cmd)
	selector.addFlag(cmd.Flags())
	addMirrorsFlag(cmd.Flags(), &mirrors)
	return cmd
}

// describable returns an error for TYPE/NAME and TYPE NAME... of objects that another command shows.
func describable(args []string) error {
	for i, arg := range args {
		kind, _, slashed := strings.Cut(arg, "/")
		if err := elsewhere(kind); err != nil && (slashed || i == 0 && len(args) > 1) {
			return fmt.Errorf("describe shows pods: %w", err)
		}
	}
	return nil
}

// selectedNames returns the names of the desired pods that match.
func (t *tool) selectedNames(ctx context.Context, namespace oneNamespace, selector labelSelector) ([]podName, error) {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	q := podQuery{filter: &podconfigv1.PodFilter{Namespaces: []string{string(namespace)}}, selector: selector}
	pods, err := t.listDesiredAs(ctx, q.desired(), podconfigv1.PodFormat_POD_FORMAT_REFERENCE)
	var names []podName
	for _, pod := range pods {
		names = append(names, podName{namespace, pod.GetRef().GetName()})
	}
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("no pod in namespace %s matches %s", namespace, selector)
	}
	return slices.Compact(names), err
}

// podInfo is the daemons' information on the pods of one name.
type podInfo struct {
	pairs  []*podsummary.Pod
	events []*podexecv1.PodEvent
	// have names the daemons that answered. withEvents reports whether podexecd sent its events.
	have       podsummary.Answered
	withEvents bool
}

// runDescribe describes the pods. One that isn't found, or whose half is missing, doesn't prevent the others.
func (t *tool) runDescribe(ctx context.Context, names []podName, mirrors bool) error {
	d := newDescription(t.Stdout, t.Clock.Now())
	var errs []error
	described := 0
	for _, p := range names {
		known, failed := t.find(ctx, p)
		errs = append(errs, failed)
		if !mirrors {
			known.pairs = podsummary.WithoutMirrors(known.pairs)
		}
		if len(known.pairs) == 0 && failed == nil {
			errs = append(errs, t.noSuchPod(ctx, p))
		}
		for _, pair := range known.pairs {
			if described++; described > 1 {
				d.blank()
			}
			d.pod(pair, known)
		}
	}
	return errors.Join(append([]error{d.flush()}, errs...)...)
}

// find asks both daemons at once. The error says which part is missing.
func (t *tool) find(ctx context.Context, p podName) (podInfo, error) {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	var (
		wg                               sync.WaitGroup
		desired                          []*podconfigv1.Pod
		observed                         []*podexecv1.ObservedPod
		known                            podInfo
		desiredErr, observeErr, eventErr error
	)
	names := t.names(ctx, p)
	filter := p.filterOf(names)
	wg.Go(func() { desired, desiredErr = t.listDesired(ctx, filter) })
	wg.Go(func() { observed, observeErr = t.listObserved(ctx, filter) })
	wg.Go(func() {
		eventErr = t.watchEvents(ctx, filter, false, func(e *podexecv1.PodEvent) error {
			known.events = append(known.events, e)
			return nil
		})
	})
	wg.Wait()
	known.have = podsummary.Answered{Podconfigd: desiredErr == nil, Podexecd: observeErr == nil}
	known.withEvents = eventErr == nil
	// A podexecd that is older than this podctl has no events; the rest is shown all the same.
	if observeErr != nil || status.Code(eventErr) == codes.Unimplemented {
		eventErr = nil
	}
	pairs, undecodable := podsummary.Join(desired, observed)
	known.pairs = matching(pairs, names, func(p *podsummary.Pod) string { return p.Ref.GetName() })
	return known, errors.Join(append([]error{desiredErr, observeErr, eventErr}, undecodable...)...)
}

// eventsOf returns the events of one pod.
func (k podInfo) eventsOf(ref *podconfigv1.PodRef) []*podexecv1.PodEvent {
	var own []*podexecv1.PodEvent
	for _, e := range k.events {
		if e.GetRef().GetUid() == ref.GetUid() {
			own = append(own, e)
		}
	}
	return own
}

// missingHalf returns which daemon's half of the description is missing.
func (k podInfo) missingHalf() string {
	switch {
	case !k.have.Podconfigd:
		return "podconfigd didn't answer: what is desired isn't known"
	case !k.have.Podexecd:
		return "podexecd didn't answer: what runs isn't known"
	default:
		return ""
	}
}
