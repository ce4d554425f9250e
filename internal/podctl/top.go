package podctl

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// topOptions are the flags of top.
type topOptions struct {
	pods       podsOptions
	names      []string
	containers bool
	capacity   bool
	sortBy     topOrder
}

// topOrder is the value of --sort-by: what top sorts by. Empty: the names.
type topOrder string

const (
	byCPU    topOrder = "cpu"
	byMemory topOrder = "memory"
)

// String implements pflag.Value.
func (o *topOrder) String() string { return string(*o) }

// Type implements pflag.Value.
func (o *topOrder) Type() string { return "word" }

// Set implements pflag.Value.
func (o *topOrder) Set(s string) error {
	switch order := topOrder(s); order {
	case byCPU, byMemory:
		*o = order
		return nil
	}
	return errors.New("want cpu or memory")
}

func (t *tool) topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the CPU and memory that the node and its pods use",
		Long: `Top shows what the node, its pods or their containers use now, as podexecd reads it: CPU in thousandths of a core, and the working
set of memory, which is what can't be freed when memory is short.`,
		Args: noArguments,
	}
	cmd.AddCommand(t.topPodsCommand(), t.topNodeCommand())
	return cmd
}

func (t *tool) topPodsCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:     "pods [POD...]",
		Aliases: []string{"pod", "po"},
		Short:   "Show the CPU and memory that pods use",
		Long: `Top pods shows the CPU and memory that each running pod uses, or each of its containers. With -o wide it shows the bytes that
each pod has received and sent so far, too.`,
		Example: `  podctl top pods
  podctl top pods web --containers
  podctl top pods -n kube-system --sort-by=memory`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return t.runTopPods(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	o.pods.addFlags(flags)
	t.addNoHeadersFlag(flags)
	flags.BoolVar(&o.containers, "containers", false, "a line for each container")
	flags.Var(&o.sortBy, "sort-by", "sort by the use of cpu or memory, the highest first")
	return cmd
}

func (t *tool) topNodeCommand() *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:     "node",
		Aliases: []string{"nodes", "no"},
		Short:   "Show the CPU and memory that the node uses",
		Long:    "Top node shows the CPU and memory that the whole node uses, and how much that is of what pods may use.",
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return t.runTopNode(cmd.Context(), o) },
	}
	t.addNoHeadersFlag(cmd.Flags())
	cmd.Flags().BoolVar(&o.capacity, "show-capacity", false, "the percentages of all that the machine has")
	return cmd
}

// runTopPods prints the use of pods.
func (t *tool) runTopPods(ctx context.Context, o topOptions) error {
	q := t.query(ctx, o.pods, o.names)
	wide := t.output == render.WideFormat
	stats, err := t.sample(ctx, &podexecv1.GetStatsRequest{Filter: q.filter, OnlyCpuAndMemory: t.output == render.TableFormat})
	if err != nil {
		return err
	}
	pods, err := labelledOnly(ctx, t.newLabelled(q.selector), stats.GetPods(), (*podexecv1.PodStats).GetRef)
	if err != nil {
		return err
	}
	slices.SortStableFunc(pods, func(a, b *podexecv1.PodStats) int {
		return o.compare(a.GetCpu(), b.GetCpu(), a.GetMemory(), b.GetMemory())
	})
	if !t.output.IsTable() {
		var list []render.Proto
		for _, p := range pods {
			list = append(list, render.Proto{Message: p})
		}
		return t.documents("").Print(struct {
			Pods []render.Proto `json:"pods"`
		}{render.OrEmpty(list)})
	}
	if len(pods) == 0 {
		t.note("no running pods found%s", inNamespaces(q.filter))
		return nil
	}
	header := []string{"NAMESPACE", "NAME", "CPU(cores)", "MEMORY(bytes)"}
	switch {
	case o.containers:
		header = []string{"NAMESPACE", "POD", "NAME", "CPU(cores)", "MEMORY(bytes)"}
	case wide:
		header = append(header, "RECEIVED(bytes)", "SENT(bytes)")
	}
	table := t.newTable(header...)
	for _, p := range pods {
		o.rows(table, p, wide)
	}
	return table.Flush()
}

// rows adds the lines of a pod.
func (o *topOptions) rows(table *render.Table, p *podexecv1.PodStats, wide bool) {
	if !o.containers {
		cells := []string{p.GetRef().GetNamespace(), p.GetRef().GetName(), cpuText(p.GetCpu()), memoryText(p.GetMemory())}
		if wide {
			cells = append(cells, trafficText(p.GetNetwork(), (*podexecv1.InterfaceStats).GetReceivedBytes), trafficText(p.GetNetwork(), (*podexecv1.InterfaceStats).GetSentBytes))
		}
		table.Row(cells...)
		return
	}
	containers := slices.Clone(p.GetContainers())
	slices.SortStableFunc(containers, func(a, b *podexecv1.ContainerStats) int {
		return o.compare(a.GetCpu(), b.GetCpu(), a.GetMemory(), b.GetMemory())
	})
	for _, c := range containers {
		table.Row(p.GetRef().GetNamespace(), p.GetRef().GetName(), c.GetName(), cpuText(c.GetCpu()), memoryText(c.GetMemory()))
	}
}

// compare compares two objects by --sort-by, the highest first. Equal without the flag.
func (o *topOptions) compare(cpuA, cpuB *podexecv1.CPUStats, memoryA, memoryB *podexecv1.MemoryStats) int {
	switch o.sortBy {
	case byCPU:
		return cmp.Compare(cpuB.GetUsageMillicores(), cpuA.GetUsageMillicores())
	case byMemory:
		return cmp.Compare(memoryB.GetWorkingSetBytes(), memoryA.GetWorkingSetBytes())
	}
	return 0
}

// runTopNode prints the use of the node.
func (t *tool) runTopNode(ctx context.Context, o topOptions) error {
	stats, err := t.sample(ctx, &podexecv1.GetStatsRequest{OnlyCpuAndMemory: t.output.IsTable()})
	if err != nil {
		return err
	}
	n := stats.GetNode()
	if n == nil {
		return errors.New("podexecd's node is out of the scope of your role")
	}
	if !t.output.IsTable() {
		return t.documents("").Print(render.Proto{Message: n})
	}
	cpu, memory := n.GetAllocatableMillicores(), n.GetAllocatableMemoryBytes()
	if o.capacity {
		cpu, memory = n.GetCapacityMillicores(), n.GetCapacityMemoryBytes()
	}
	table := t.newTable("NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)")
	var cpuShare, memoryShare string
	if n.GetCpu() != nil && n.GetCpu().UsageMillicores != nil {
		cpuShare = percentText(n.GetCpu().GetUsageMillicores(), cpu)
	}
	if n.GetMemory() != nil {
		memoryShare = percentText(int64(n.GetMemory().GetWorkingSetBytes()), memory) //nolint:gosec // A machine has less.
	}
	table.Row(n.GetName(), cpuText(n.GetCpu()), cpuShare, memoryText(n.GetMemory()), memoryShare)
	return table.Flush()
}
