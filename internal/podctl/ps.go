package podctl

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/containerrow"
	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// psOptions are the flags of ps.
type psOptions struct {
	pods              podsOptions
	all, quiet, whole bool
}

func (t *tool) psCommand() *cobra.Command {
	var o psOptions
	cmd := &cobra.Command{
		Use:   "ps [POD...]",
		Short: "Show the containers that run here, as podman ps and crictl ps do",
		Long:  "Ps shows the containers of the pods on this node, as podexecd observes them. Without --all it shows those that run.",
		Example: `  podctl ps -a
  podctl ps -q --no-trunc web                 # the runtime's IDs of a pod's containers`,
		RunE: func(cmd *cobra.Command, args []string) error { return t.runPs(cmd.Context(), o, args) },
	}
	flags := cmd.Flags()
	o.pods.addFlags(flags)
	t.addListFlags(flags)
	flags.BoolVarP(&o.all, "all", "a", false, "also the containers that don't run")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "only the IDs")
	flags.BoolVar(&o.whole, "no-trunc", false, "whole IDs")
	return cmd
}

func (t *tool) runPs(ctx context.Context, o psOptions, names []string) error {
	q := t.query(ctx, o.pods, names)
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	pods, err := t.listObserved(ctx, q.filter)
	if err == nil {
		pods, err = labelledOnly(ctx, t.newLabelled(q.selector), pods, (*podexecv1.ObservedPod).GetRef)
	}
	if err != nil {
		return err
	}
	pairs, undecodable := podsummary.Join(nil, pods)
	rows := []containerrow.Row{}
	for _, p := range pairs {
		if p.Status == nil {
			continue
		}
		for _, row := range containerrow.Of(p.Ref, p.Status) {
			if o.all || row.State == containerrow.Running {
				rows = append(rows, row)
			}
		}
	}
	rows, err = sorted(t, rows, func(r containerrow.Row) any { return r })
	if err == nil {
		err = t.printContainers(rows, o)
	}
	return errors.Join(append([]error{err}, undecodable...)...)
}

func (t *tool) printContainers(rows []containerrow.Row, o psOptions) error {
	id := containerrow.Row.ShortID
	if wide := t.output == render.WideFormat; o.whole || wide {
		id = func(r containerrow.Row) string { return r.ID }
	}
	switch {
	case o.quiet:
		for _, r := range rows {
			if _, err := fmt.Fprintln(t.Stdout, render.Escape(id(r))); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		return nil
	case !t.output.IsTable():
		return t.documents("container").Print(struct {
			Containers []containerrow.Row `json:"containers"`
		}{rows})
	case len(rows) == 0:
		t.note("no containers found: --all shows those that don't run, too")
		return nil
	}
	header := []string{"CONTAINER ID", "IMAGE", "STATUS", "RESTARTS", "NAME", "POD", "NAMESPACE"}
	wide := t.output == render.WideFormat
	if wide {
		header = append(header, "IMAGE ID", "MESSAGE")
	}
	table := t.newTable(header...)
	for _, r := range rows {
		cells := []string{id(r), r.Image, r.Status(t.Clock.Now()), strconv.Itoa(int(r.Restarts)), r.Name, r.Pod, r.Namespace}
		if wide {
			cells = append(cells, r.ImageID, r.Message)
		}
		table.Row(cells...)
	}
	return table.Flush()
}
