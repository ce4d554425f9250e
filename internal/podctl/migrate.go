package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-client/pkg"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/execsvc/cri/runtime"
	"github.com/podstream/podstream/internal/migrate"
	"github.com/podstream/podstream/internal/podctl/render"
)

// maxPodList bounds the list of pods, in bytes.
const maxPodList = 64 << 20

type migrateOptions struct {
	dryRun           bool
	pods, endpoint   string
	rootDir, logsDir string
}

func (t *tool) migrateCommand() *cobra.Command {
	o := migrateOptions{}
	cmd := &cobra.Command{
		Use:   "migrate --dry-run -f PODS",
		Short: "Show what happens to each pod when podexecd replaces the kubelet",
		Long: `Migrate reads the container runtime, the kubelet's directories, and the list of the node's pods, and prints for each running pod
whether podexecd with --adopt-kubelet-pods keeps or restarts it, and the reason. It changes nothing; the kubelet may run. PODS is what
'kubectl get pods -A --field-selector spec.nodeName=NODE -o yaml' prints; "-" is standard input.
The exit code is 1 if a pod uses a feature that podexecd lacks.`,
		Example: "  kubectl get pods -A --field-selector spec.nodeName=node-1 -o json | podctl migrate --dry-run -f -",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return t.runMigrate(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.dryRun, "dry-run", false, "required: podctl itself migrates nothing")
	flags.StringVarP(&o.pods, "filename", "f", "", "`file` with the list of the node's pods, as JSON or YAML; - is standard input")
	flags.StringVar(&o.endpoint, "container-runtime-endpoint", "unix:///run/containerd/containerd.sock", "the container runtime's CRI `socket`")
	flags.StringVar(&o.rootDir, "root-dir", "/var/lib/kubelet", "the kubelet's `directory`, which podexecd will use")
	flags.StringVar(&o.logsDir, "pod-logs-dir", "/var/log/pods", "`directory` of the pods' logs")
	_ = cmd.MarkFlagRequired("dry-run")
	_ = cmd.MarkFlagRequired("filename")
	return cmd
}

func (t *tool) runMigrate(ctx context.Context, o migrateOptions) error {
	if !o.dryRun {
		return errors.New("podctl migrates nothing: use --dry-run, and start podexecd with --adopt-kubelet-pods")
	}
	list, err := t.readPods(o.pods)
	if err != nil {
		return err
	}
	service, err := cri.NewRemoteRuntimeServiceBuilder().WithEndpoint(o.endpoint).WithConnectionTimeout(t.requestTimeout).Build(ctx)
	if err != nil {
		return fmt.Errorf("container runtime at %s: %w", o.endpoint, err)
	}
	in := migrate.Input{Desired: list.Items, HasDirectories: runtime.Directories{Pods: o.rootDir + "/pods", Logs: o.logsDir}.Has}
	if in.Sandboxes, err = service.ListPodSandbox(ctx, nil); err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	if in.Containers, err = service.ListContainers(ctx, nil); err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	return t.printPlan(migrate.Plan(in))
}

// readPods reads a list of pods.
func (t *tool) readPods(name string) (*v1.PodList, error) {
	in := t.Stdin
	if name != stdinName {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxPodList+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxPodList {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxPodList)
	}
	list := &v1.PodList{}
	if err := yaml.Unmarshal(data, list); err != nil {
		return nil, fmt.Errorf("%s isn't a list of pods: %w", name, err)
	}
	if list.Kind != "List" && list.Kind != "PodList" {
		return nil, fmt.Errorf("%s isn't a list of pods: its kind is %q", name, list.Kind)
	}
	return list, nil
}

// printPlan prints the plan. It returns an error with exit code 1 if a pod needs what podexecd lacks.
func (t *tool) printPlan(pods []migrate.Pod) error {
	lacking := false
	for _, p := range pods {
		lacking = lacking || len(p.Lacks) > 0
	}
	if err := t.writePlan(pods); err != nil {
		return err
	}
	if lacking {
		return &exitError{code: exitFailed}
	}
	return nil
}

func (t *tool) writePlan(pods []migrate.Pod) error {
	if !t.output.IsTable() {
		return (&render.Documents{Out: t.Stdout, Format: t.output}).Print(struct {
			Pods []migrate.Pod `json:"pods"`
		}{render.OrEmpty(pods)})
	}
	table := render.NewTable(t.Stdout, "NAMESPACE", "NAME", "ACTION", "LACKS", "REASON")
	for _, p := range pods {
		table.Row(p.Namespace, p.Name, string(p.Action), strings.Join(p.Lacks, "; "), p.Reason)
	}
	return table.Flush()
}
