package podctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// waitOptions are the flags of wait.
type waitOptions struct {
	namespace oneNamespace
	names     []string
	condition condition
	timeout   time.Duration
}

func (t *tool) waitCommand() *cobra.Command {
	var namespace podName
	var o waitOptions
	cmd := &cobra.Command{
		Use:   "wait POD... --for=CONDITION",
		Short: "Wait until pods meet a condition",
		Long: `Wait waits until each of the pods on this node meets a condition, as podexecd observes them, and prints a line for each.
The syntax of --for, the messages and the exit code are those of kubectl wait:

  --for=condition=NAME[=VALUE]           the pod's condition NAME is VALUE; by default true
  --for=jsonpath='{.status...}'[=VALUE]  the expression has the value VALUE, or any
  --for=create                           the pod exists
  --for=delete                           nothing is left of the pod

It exits with 1 if a pod doesn't meet the condition in time, or doesn't exist. It asks nothing repeatedly, and goes on after a
restart of podexecd.`,
		Example: `  podctl wait web --for=condition=Ready --timeout=1m
  podctl wait pod/web --for=jsonpath='{.status.phase}'=Running
  podctl wait web db --for=delete`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch o.names = withoutKind(args); {
			case len(o.names) == 0:
				return errors.New("want the names of pods")
			case !cmd.Flags().Changed("for"):
				return errors.New("want --for: " + wantFor)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.namespace = namespace.namespace
			return t.runWait(cmd.Context(), o)
		},
	}
	namespace.addNamespaceFlag(cmd)
	cmd.Flags().Var(&o.condition, "for", "the `condition`: condition=NAME[=VALUE], jsonpath='{EXPRESSION}'[=VALUE], create or delete")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait; 0 checks once, a negative time waits for a week")
	return cmd
}

// withoutKind returns the names of the pods on a command line such as kubectl's: "pod web" is "web".
func withoutKind(args []string) []string {
	if len(args) > 0 && slices.Contains([]string{"pod", "pods", "po"}, args[0]) {
		return args[1:]
	}
	return args
}

const week = 7 * 24 * time.Hour

func (t *tool) runWait(ctx context.Context, o waitOptions) error {
	w := &waiter{tool: t, condition: o.condition, once: o.timeout == 0}
	filter := &podconfigv1.PodFilter{Namespaces: []string{string(o.namespace)}}
	node, reached := t.askNodeName(ctx)
	for _, name := range o.names {
		p := podName{namespace: o.namespace}
		p.set(name)
		candidates := []string{p.name, p.name + "-" + node}
		filter.Names = append(filter.Names, candidates...)
		w.pods = append(w.pods, &awaited{podName: p, candidates: candidates})
	}
	limit := o.timeout
	switch {
	case limit < 0:
		limit = week
	case limit == 0:
		// The first look decides.
		limit = t.requestTimeout
	}
	waiting, release := t.withLimit(ctx, limit)
	defer release()
	// With one look only, the error of a connection is the answer.
	if err := t.followStatus(waiting, filter, reached && !w.once, w.look); err != nil && !errors.Is(err, errLimit) {
		return err
	}
	return w.result()
}

// waiter waits for pods.
type waiter struct {
	tool      *tool
	condition condition
	// once is set if the first look decides.
	once bool
	pods []*awaited
}

// awaited is one pod that is waited for.
type awaited struct {
	podName
	// candidates are the names that may be meant, the best first.
	candidates []string
	// name is the pod's full name, and uids those of the pods that had it at the first look.
	name string
	uids []string
	// done is set once the condition is met, or err is set.
	done bool
	err  error
}

// look checks each pod that isn't done. It returns errFollowed if all are, or only one look is wanted.
func (w *waiter) look(pods map[string]*podexecv1.ObservedPod) error {
	left := false
	for _, p := range w.pods {
		if p.done {
			continue
		}
		met, err := w.check(p, pods)
		switch {
		case err != nil:
			p.done, p.err = true, err
		case met:
			p.done = true
			if _, err := fmt.Fprintf(w.tool.Stdout, "pod/%s condition met\n", render.Escape(p.name)); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		left = left || !p.done
	}
	if !left || w.once {
		return errFollowed
	}
	return nil
}

// check reports whether the pod meets the condition.
func (w *waiter) check(p *awaited, pods map[string]*podexecv1.ObservedPod) (bool, error) {
	now := p.among(pods)
	first := p.name == ""
	if first && len(now) > 0 {
		p.name = now[0].GetRef().GetName()
		for _, o := range now {
			p.uids = append(p.uids, o.GetRef().GetUid())
		}
	}
	switch {
	case w.condition.deleted && first && len(now) == 0:
		// As with kubectl, that a pod doesn't exist is no error, and isn't reported.
		p.done = true
		return false, nil
	case w.condition.deleted:
		left := func(uid string) bool { return pods[uid] != nil }
		return !slices.ContainsFunc(p.uids, left), nil
	case len(now) == 0 && w.condition.created:
		return false, nil
	case len(now) == 0 && first:
		return false, fmt.Errorf("there is no pod %s", p.podName)
	case len(now) == 0:
		// It was removed, and may be added again.
		return false, nil
	case w.condition.created:
		return true, nil
	}
	pod, err := podOf(now[max(0, slices.IndexFunc(now, (*podexecv1.ObservedPod).GetDesired))])
	if err != nil {
		return false, err
	}
	return w.condition.met(pod)
}

// among returns the pods with the name that is meant: its full name, or the first of the candidates that a pod has.
func (p *awaited) among(pods map[string]*podexecv1.ObservedPod) []*podexecv1.ObservedPod {
	names := p.candidates
	if p.name != "" {
		names = []string{p.name}
	}
	for _, name := range names {
		var found []*podexecv1.ObservedPod
		for _, o := range pods {
			if o.GetRef().GetName() == name {
				found = append(found, o)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// result returns the errors of the pods that don't meet the condition.
func (w *waiter) result() error {
	var errs []error
	for _, p := range w.pods {
		switch {
		case p.err != nil:
			errs = append(errs, p.err)
		case !p.done && p.name == "":
			errs = append(errs, fmt.Errorf("timed out waiting for the condition on pods/%s", p.podName.name))
		case !p.done:
			errs = append(errs, fmt.Errorf("timed out waiting for the condition on pods/%s", p.name))
		}
	}
	return errors.Join(errs...)
}
