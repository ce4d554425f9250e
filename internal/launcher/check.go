package launcher

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletdir"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// healthzPort is the kubelet's default. podexecd has it only on a node of a cluster.
const healthzPort = "10248"

// line is a daemon's command line, parsed as the daemon parses it, and its configuration files. These can't be pipes: the
// launcher and both daemons read them.
type line struct {
	common daemon.Flags
	set    *pflag.FlagSet
	config kubeletconfig.Paths
	files  []kubeletconfig.File
}

func newLine(name string) *line {
	l := &line{}
	l.set = l.common.NewFlagSet(name, "", io.Discard)
	l.set.StringVar(&l.config.Config, "config", "", "")
	l.set.StringVar(&l.config.Dir, "config-dir", "", "")
	return l
}

// read parses the arguments, and reads the files.
func (l *line) read(args []string) error {
	if err := l.common.Parse(l.set, args); err != nil {
		return err
	}
	_, err := l.common.NodeName()
	if err != nil {
		return err
	}
	l.files, err = kubeletconfig.Load(l.config)
	return err
}

// podexecdLine parses podexecd's arguments.
func podexecdLine(args []string, exec *execconfig.Flags) (*line, error) {
	l := newLine("podexecd")
	l.set.StringVar(&l.common.LogFormat, "logging-format", l.common.LogFormat, "")
	l.set.Bool(adoptFlag, false, "")
	dir := l.set.String(kubeletDirFlag, kubeletdir.Default, "")
	exec.AddFlags(l.set)
	if err := l.read(args); err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(*dir)
	if err != nil {
		return nil, err
	}
	return l, kubeletdir.CheckPath(abs)
}

// podconfigdLine parses podconfigd's arguments.
func podconfigdLine(args []string, sources *sourceconfig.Flags) (*line, error) {
	l := newLine("podconfigd")
	sources.AddFlags(l.set)
	var tracing daemon.Tracing
	tracing.AddFlags(l.set)
	err := l.read(args)
	return l, errors.Join(err, tracing.Check())
}

// Check reads the configuration files, and returns the mistakes in flags and files that would keep either daemon from
// starting. A file that only a source names may be missing: the kubeconfig is made by a bootstrap. defaults are further flags
// of podexecd, for settings of the kubelet that are in no flag and no file.
func Check(c *Commands) (defaults []string, err error) {
	var exec execconfig.Flags
	podexecd, err := podexecdLine(c.Podexecd, &exec)
	if err != nil {
		return nil, err
	}
	var sources sourceconfig.Flags
	podconfigd, err := podconfigdLine(c.Podconfigd, &sources)
	if err != nil {
		return nil, err
	}
	_, execErr := exec.Settle(podexecd.files)
	if err := errors.Join(execErr, checkSources(&sources, podconfigd.files)); err != nil {
		return nil, err
	}
	if set, err := hasHealthzPort(podexecd); err != nil || set {
		return nil, err
	}
	return []string{argument("healthz-port", healthzPort)}, nil
}

// checkSources returns the mistakes that podconfigd finds.
func checkSources(flags *sourceconfig.Flags, files []kubeletconfig.File) error {
	plan, err := sourceconfig.Make(sourceconfig.Input{Files: files, Flags: flags})
	switch {
	case err != nil:
		return err
	case len(plan.Sources) == 0:
		return errors.New("there is no source of pods: give --kubeconfig, --pod-manifest-path or --manifest-url, or staticPodPath in the configuration")
	}
	return nil
}

// hasHealthzPort reports whether a flag or a file sets the port.
func hasHealthzPort(podexecd *line) (bool, error) {
	if podexecd.set.Changed("healthz-port") {
		return true, nil
	}
	docs, err := kubeletconfig.Parse(podexecd.files)
	if err != nil {
		return false, err
	}
	merged, err := kubeletconfig.Merge(docs)
	if err != nil {
		return false, err
	}
	return merged.HealthzPort != nil, nil
}
