package podctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// podsOptions are the flags of pods.
type podsOptions struct {
	namespaces    namespaceList
	allNamespaces bool
	selector      labelSelector
	watch         bool
	mirrors       bool
}

// addFlags adds the flags that select pods.
func (o *podsOptions) addFlags(flags *pflag.FlagSet) {
	flags.VarP(&o.namespaces, "namespace", "n", "only the pods of these `namespaces`")
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "the pods of all namespaces, which is the default; wins over -n")
	o.selector.addFlag(flags)
}

func (t *tool) podsCommand() *cobra.Command {
	var o podsOptions
	cmd := &cobra.Command{
		Use:   "pods [POD...]",
		Short: "Show the pods that should run here beside those that run",
		Long: `Pods shows the pods that should run on this node, from podconfigd, beside their state, from podexecd.

With --watch it shows podexecd's pods, and continues with a line for each change of a status, across reconnections, until
Ctrl-C. A pod of which nothing is left is shown as Removed.`,
		Example: `  podctl pods
  podctl pods web -o wide
  podctl pods -n kube-system,default --watch`,
		Args: func(*cobra.Command, []string) error { return t.checkSorted(o.watch) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.mirrors && o.watch {
				return errMirrorsWatched
			}
			q := t.query(cmd.Context(), o, args)
			if o.watch {
				return t.newPodsWatcher(q).run(cmd.Context())
			}
			return t.runPods(cmd.Context(), q)
		},
	}
	o.addFlags(cmd.Flags())
	addMirrorsFlag(cmd.Flags(), &o.mirrors)
	t.addListFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "continue with every change, as podexecd reports it")
	return cmd
}

func (o podsOptions) filter() *podconfigv1.PodFilter {
	if len(o.namespaces) == 0 || o.allNamespaces {
		return nil
	}
	return &podconfigv1.PodFilter{Namespaces: o.namespaces}
}

// query returns the query of a list, with the pods on the command line if any, in all namespaces unless it has -n.
func (t *tool) query(ctx context.Context, o podsOptions, args []string) podQuery {
	return podQuery{filter: t.namedFilter(ctx, o, args), selector: o.selector, mirrors: o.mirrors}
}

// namedFilter is query without the selector.
func (t *tool) namedFilter(ctx context.Context, o podsOptions, args []string) *podconfigv1.PodFilter {
	filter := o.filter()
	if len(args) == 0 {
		return filter
	}
	if filter == nil {
		filter = &podconfigv1.PodFilter{}
	}
	node := t.nodeName(ctx)
	for _, arg := range args {
		var p podName
		p.set(arg)
		filter.Names = append(filter.Names, p.name, p.name+"-"+node)
	}
	return filter
}

// podPairs are the pods of both daemons, as far as they answered.
type podPairs struct {
	pairs []*podsummary.Pod
	have  podsummary.Answered
}

// bothHalves lists as much as it can get: one of the daemons may not answer. The error says what is missing. If there is
// nothing to show, have is its zero value.
func (t *tool) bothHalves(ctx context.Context, q podQuery) (podPairs, error) {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	var (
		wg                    sync.WaitGroup
		desired               []*podconfigv1.Pod
		observed              []*podexecv1.ObservedPod
		desiredErr, observErr error
	)
	wg.Go(func() { desired, desiredErr = t.listDesired(ctx, q.desired()) })
	wg.Go(func() { observed, observErr = t.listObserved(ctx, q.filter) })
	wg.Wait()

	failed := errors.Join(desiredErr, observErr)
	if q.selector != "" {
		if desiredErr != nil {
			return podPairs{}, fmt.Errorf("find the pods that match %s: %w", q.selector, desiredErr)
		}
		matching := map[string]bool{}
		for _, p := range desired {
			matching[p.GetRef().GetUid()] = true
		}
		observed = slices.DeleteFunc(observed, func(p *podexecv1.ObservedPod) bool { return !matching[p.GetRef().GetUid()] })
	}
	have := podsummary.Answered{Podconfigd: desiredErr == nil, Podexecd: observErr == nil}
	pairs, undecodable := podsummary.Join(desired, observed)
	if !q.mirrors {
		pairs = podsummary.WithoutMirrors(pairs)
	}
	return podPairs{pairs, have}, errors.Join(append([]error{failed}, undecodable...)...)
}

func (t *tool) runPods(ctx context.Context, q podQuery) error {
	pods, failed := t.bothHalves(ctx, q)
	if pods.have == (podsummary.Answered{}) {
		return failed
	}
	if err := t.printPods(q.filter, pods.pairs, pods.have); err != nil {
		return err
	}
	return failed
}

func (t *tool) printPods(filter *podconfigv1.PodFilter, pairs []*podsummary.Pod, have podsummary.Answered) error {
	now := t.Clock.Now()
	pairs, err := sorted(t, pairs, func(p *podsummary.Pod) any { return p.Document(p.Row(have, now)) })
	if err != nil {
		return err
	}
	if !t.output.IsTable() {
		docs := make([]podsummary.Document, len(pairs))
		for i, p := range pairs {
			docs[i] = p.Document(p.Row(have, now))
		}
		return t.documents("pod").Print(struct {
			Pods []podsummary.Document `json:"pods"`
		}{docs})
	}
	if len(pairs) == 0 {
		t.note("no pods found%s", inNamespaces(filter))
		return nil
	}
	out := t.newPodTable(false)
	for _, p := range pairs {
		out.row(p, p.Row(have, now))
	}
	return out.Flush()
}

// inNamespaces returns the namespaces of a list; empty for all.
func inNamespaces(filter *podconfigv1.PodFilter) string {
	switch names := filter.GetNamespaces(); len(names) {
	case 0:
		return ""
	case 1:
		return " in namespace " + names[0]
	default:
		return " in namespaces " + strings.Join(names, ", ")
	}
}

// podTable is a table with a line for each pod.
type podTable struct {
	*render.Table
	// uids is set if each line has the start of the pod's UID. A wide line has the whole UID.
	uids, wide bool
}

// newPodTable makes the table. With uids, lines of two pods with one name can be distinguished.
func (t *tool) newPodTable(uids bool) *podTable {
	p := &podTable{uids: uids, wide: t.output == render.WideFormat}
	header := []string{"NAMESPACE", "NAME", "SOURCE", "STATUS", "READY", "RESTARTS", "AGE"}
	switch {
	case p.wide:
		header = append(header, "IP", "UID", "WORKER", "MESSAGE")
	case p.uids:
		// As wide as the widest later value, so that later lines stay aligned.
		header[3] = "STATUS           "
		header = append(header, "UID      ")
	}
	p.Table = t.newTable(header...)
	return p
}

// row adds the line of a pod.
func (t *podTable) row(p *podsummary.Pod, r podsummary.Row) {
	cells := []string{p.Ref.GetNamespace(), p.Ref.GetName(), p.Source(), r.Status, r.Ready, r.Restarts, r.Age}
	switch {
	case t.wide:
		cells = append(cells, r.IP, p.Ref.GetUid(), r.Worker, r.Message)
	case t.uids:
		cells = append(cells, shortened(p.Ref.GetUid(), false))
	}
	t.Table.Row(cells...)
}
