package launcher

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// flagSet has the kubelet's flags, with podexecd's own flags about how pods run.
type flagSet struct {
	set     *pflag.FlagSet
	common  daemon.Flags
	exec    execconfig.Flags
	sources sourceconfig.Flags
	// ofSources are the flags of podconfigd's sources; its values are checked by their types there.
	ofSources *pflag.FlagSet
	version   versionValue
}

// kubeletCommon are those flags of both daemons that are the kubelet's too. The others, such as --listen, would be ambiguous.
var kubeletCommon = []string{"tls-cert-file", "tls-private-key-file", "client-ca-file", "hostname-override", "v"}

func newFlagSet() *flagSet {
	f := &flagSet{set: pflag.NewFlagSet("kubelet", pflag.ContinueOnError), ofSources: pflag.NewFlagSet("sources", pflag.ContinueOnError)}
	f.set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	f.set.SetOutput(io.Discard)
	f.set.Usage = func() {} // The caller prints it.
	common := pflag.NewFlagSet("common", pflag.ContinueOnError)
	f.common.AddFlags(common, "kubelet")
	for _, name := range kubeletCommon {
		f.set.AddFlag(common.Lookup(name))
	}
	f.set.StringVar(&f.common.RootDir, "root-dir", defaultRootDir, "`directory` of the pods' files and of both daemons' state")
	f.set.String("config", "", "`file` with a KubeletConfiguration; flags take precedence")
	f.set.String("config-dir", "", "`directory` of drop-ins, *.conf, for --config")
	f.set.StringVar(&f.common.LogFormat, "logging-format", f.common.LogFormat, "`format` of the log: text or json")
	f.exec.AddFlags(f.set)
	f.sources.AddFlags(f.ofSources)
	for name := range podconfigdFlags {
		// podexecd hides them, as they have no effect there.
		if flag := f.set.Lookup(name); flag != nil && flag.Hidden {
			flag.Hidden = false
			flag.Usage = f.ofSources.Lookup(name).Usage
		}
	}
	f.set.Var(&f.version, "version", "print the version and exit; raw prints it as a struct")
	f.set.Lookup("version").NoOptDefVal = "true"
	return f
}

// parse returns the flags in their order, and sets them.
func (f *flagSet) parse(args []string) ([]given, error) {
	var list []given
	err := f.set.ParseAll(args, func(flag *pflag.Flag, value string) error {
		if _, ok := podconfigdFlags[flag.Name]; ok && f.ofSources.Lookup(flag.Name) != nil {
			if err := f.ofSources.Set(flag.Name, value); err != nil {
				return err
			}
		}
		if flag.Name != versionFlag {
			list = append(list, given{flag.Name, value})
		}
		return f.set.Set(flag.Name, value)
	})
	if err != nil {
		return nil, err
	}
	if f.set.NArg() > 0 {
		return nil, fmt.Errorf("unknown command %q: the kubelet takes only flags", f.set.Arg(0))
	}
	return list, nil
}

// Usage returns the text of --help.
func Usage() string {
	return "The kubelet's command line, for Podstream: starts podconfigd and podexecd with the flags and the configuration of a kubelet.\n\n" +
		"Usage:\n  kubelet [flags]\n\nFlags:\n" + newFlagSet().set.FlagUsages()
}
