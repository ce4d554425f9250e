package podctl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/migration"
	"github.com/podstream/podstream/internal/openfile"
)

// The defaults of migrate: the paths of kubeadm.
const (
	defaultKubeletConfig = migration.DefaultRootDir + "/config.yaml"
	defaultKubeconfig    = "/etc/kubernetes/kubelet.conf"
)

func (t *tool) migrateCommand() *cobra.Command {
	var cfg migration.Config
	var dryRun bool
	var pods string
	cmd := &cobra.Command{
		Use:   "migrate --dry-run",
		Short: "Show what happens to each pod when Podstream takes the kubelet's place",
		Long: `Migrate shows what happens to each pod of this node's kubelet when Podstream takes the kubelet's place, and why:

  KEEP     its running containers continue
  RESTART  containers of it are stopped, and others start in their place
  REMOVE   it is stopped, and nothing starts in its place
  IGNORE   Podstream leaves the sandbox to its owner

It changes nothing, and the kubelet may run. It reads the container runtime, the kubelet's directories and configuration, the
manifests of its static pods, and the node's pods at the API server, with the kubelet's own kubeconfig. With --pods it reads the
output of 'kubectl get pods -A -o json' instead. Run it as root.`,
		Example: "  podctl migrate --dry-run\n  kubectl get pods -A -o json | podctl migrate --dry-run --pods -",
		Args: func(cmd *cobra.Command, args []string) error {
			if !dryRun {
				return errors.New("podctl migrate only has --dry-run: to migrate, stop the kubelet and start Podstream's program kubelet, " +
					"or podexecd with --adopt-kubelet-pods, see docs/install.md")
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			changed := cmd.Flags().Changed
			cfg.Kubelet.Given, cfg.KubeconfigGiven = changed("config") || changed("config-dir"), changed("kubeconfig")
			return t.runMigrate(cmd.Context(), cfg, pods)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&dryRun, "dry-run", false, "required: podctl itself changes nothing")
	flags.StringVar(&pods, "pods", "", "`file` with the node's pods, as kubectl prints a list in JSON or YAML; - is standard input; default: the API server is asked")
	flags.StringVar(&cfg.Kubeconfig, "kubeconfig", defaultKubeconfig, "the kubelet's `kubeconfig`; empty: there is no API server")
	flags.StringVar(&cfg.HostnameOverride, "hostname-override", "", "the node's `name`; default: the host's")
	flags.StringVar(&cfg.Kubelet.Config, "config", defaultKubeletConfig, "the kubelet's configuration `file`; empty: there is none")
	flags.StringVar(&cfg.Kubelet.Dir, "config-dir", "", "the `directory` of its drop-ins")
	flags.StringVar(&cfg.Manifests, "pod-manifest-path", "", "the `path` of the static pods' manifests; default: as in the configuration")
	flags.StringVar(&cfg.RuntimeEndpoint, "container-runtime-endpoint", "",
		"the container runtime's CRI `socket`; default: as in the configuration, or "+migration.DefaultRuntimeEndpoint)
	flags.StringVar(&cfg.RootDir, "root-dir", migration.DefaultRootDir, "the kubelet's `directory`, which podexecd will use")
	flags.StringVar(&cfg.LogsDir, "pod-logs-dir", "", "the `directory` of the pods' logs; default: as in the configuration, or "+migration.DefaultLogsDir)
	return cmd
}

// runMigrate prints the plan. pods is the file of --pods, or empty.
func (t *tool) runMigrate(ctx context.Context, cfg migration.Config, pods string) error {
	cfg.Patience, cfg.Clock = t.requestTimeout, t.Clock
	var err error
	if pods != "" {
		if cfg.Pods, err = t.readPodList(ctx, pods); err != nil {
			return fmt.Errorf("--pods: %w", err)
		}
	}
	report, err := migration.Examine(ctx, cfg)
	if err != nil {
		return err
	}
	return t.printPlan(report)
}

// readPodList reads the file of --pods. It isn't nil without an error.
func (t *tool) readPodList(ctx context.Context, name string) ([]byte, error) {
	var data []byte
	var err error
	if name == stdinName {
		data, err = t.readStdin(ctx, name, migration.MaxPods)
	} else {
		data, _, err = openfile.ReadGiven(ctx, name, migration.MaxPods)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > migration.MaxPods:
		return nil, fmt.Errorf("%s is larger than %d MiB", name, migration.MaxPods>>20)
	case len(data) == 0:
		return nil, fmt.Errorf("%s is empty", name)
	}
	return data, nil
}
