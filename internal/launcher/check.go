package launcher

import (
	"errors"
	"fmt"
	"io"

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// Check reads the configuration files of a command line that Split accepts, and returns the mistakes in flags and files that
// would keep either daemon from starting. A file that only a source names may be missing: kubeadm's bootstrap creates the
// kubeconfig later.
func Check(args []string) error {
	f := newFlagSet()
	if _, err := f.parse(args); err != nil {
		return err
	}
	paths := kubeletconfig.Paths{Given: true}
	for flag, path := range map[string]*string{"config": &paths.Config, "config-dir": &paths.Dir} {
		var err error
		if *path, err = f.set.GetString(flag); err != nil {
			return err
		}
	}
	files, err := kubeletconfig.Load(paths)
	if err != nil {
		return err
	}
	_, nodeErr := f.common.NodeName()
	if _, err := f.common.Logger(io.Discard); err != nil {
		nodeErr = errors.Join(nodeErr, err)
	}
	_, execErr := f.exec.Settle(files)
	return errors.Join(nodeErr, execErr, f.checkSources(files))
}

// checkSources returns the mistakes that podconfigd finds.
func (f *flagSet) checkSources(files []kubeletconfig.File) error {
	plan, err := sourceconfig.Make(sourceconfig.Input{Files: files, Flags: &f.sources})
	switch {
	case err != nil:
		return err
	case len(plan.Sources) == 0:
		return fmt.Errorf("there is no source of pods: give --kubeconfig, --pod-manifest-path or --manifest-url, or staticPodPath in the configuration")
	}
	return nil
}
