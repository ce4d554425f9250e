package launcher

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// flagSet has the kubelet's flags, and those of both daemons that mean the same for both, or that only one of them has.
type flagSet struct {
	set     *pflag.FlagSet
	common  daemon.Flags
	exec    execconfig.Flags
	sources sourceconfig.Flags
	// ofSources are the flags of podconfigd's sources. podexecd hides those of them that are the kubelet's, without a type.
	ofSources *pflag.FlagSet
	// ofPodconfigd are the names of the flags that only podconfigd obeys.
	ofPodconfigd map[string]bool
	version      versionValue
	checkConfig  bool
}

// adoptFlag is podexecd's flag for the pods of a kubelet that had its directory. Here it is on by default.
const adoptFlag = "adopt-kubelet-pods"

// kubeletDirFlag is podexecd's flag for the directory of the pods' volumes. Here it is --root-dir, as with the kubelet.
const kubeletDirFlag = "kubelet-dir"

// ambiguous are flags that have another value for each daemon.
var ambiguous = []string{"listen", "metrics-address"}

// usages are the help texts of flags that have another default here than with the daemon itself, or another meaning.
var usages = map[string]string{
	"cert-dir":          "`directory` of podexecd's certificates",
	"healthz-port":      "`port` of podexecd's health; 0: off",
	"manifest-url":      "`url` to get pods from; the last one counts; the source is \"http\"",
	"pod-manifest-path": "`path` of a directory of pod manifests, or of one manifest; the last one counts; the source is \"file\"",
	"root-dir":          "`directory` for podexecd's state; podconfigd's is in podconfigd beneath it",
}

func newFlagSet() *flagSet {
	f := &flagSet{
		set: pflag.NewFlagSet("kubelet", pflag.ContinueOnError), ofSources: pflag.NewFlagSet("sources", pflag.ContinueOnError),
		ofPodconfigd: map[string]bool{},
	}
	f.set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	f.set.SetOutput(io.Discard)
	f.set.Usage = func() {} // The caller prints it.
	f.common.AddFlags(f.set, "kubelet")
	f.common.RootDir = defaultRootDir
	f.set.String("config", "", "`file` with a KubeletConfiguration; flags take precedence")
	f.set.String("config-dir", "", "`directory` of drop-ins, *.conf, for --config")
	f.set.StringVar(&f.common.LogFormat, "logging-format", f.common.LogFormat, "as --log-format")
	f.set.Bool(adoptFlag, true, "adopt the running pods of a kubelet that is stopped, without a restart of their containers")
	f.exec.AddFlags(f.set)
	f.sources.AddFlags(f.ofSources)
	f.ofSources.VisitAll(func(flag *pflag.Flag) {
		if slices.Contains(forBoth, flag.Name) {
			return
		}
		f.ofPodconfigd[flag.Name] = true
		hidden := f.set.Lookup(flag.Name)
		if hidden == nil {
			f.set.AddFlag(flag)
			return
		}
		hidden.Hidden, hidden.Usage, hidden.Value, hidden.DefValue = false, flag.Usage, flag.Value, flag.DefValue
	})
	for _, name := range ambiguous {
		f.set.Lookup(name).Hidden = true
	}
	for name, text := range usages {
		f.set.Lookup(name).Usage = text
	}
	f.set.Lookup("root-dir").DefValue, f.set.Lookup("cert-dir").DefValue = defaultRootDir, defaultCertDir
	f.set.BoolVar(&f.checkConfig, "check-config", false, "have both daemons print the effective configuration, or its errors, and exit")
	f.set.Var(&f.version, versionFlag, "print the version and exit; raw prints it as a struct")
	f.set.Lookup(versionFlag).NoOptDefVal = "true"
	return f
}

// parse returns the flags in their order, and sets them.
func (f *flagSet) parse(args []string) ([]given, error) {
	var list []given
	err := f.set.ParseAll(args, func(flag *pflag.Flag, value string) error {
		switch {
		case slices.Contains(ambiguous, flag.Name):
			return errors.New("podconfigd and podexecd each have one: set it in PODCONFIGD_FLAGS or PODEXECD_FLAGS")
		case flag.Name == versionFlag, flag.Name == "check-config":
		default:
			list = append(list, given{flag.Name, value})
		}
		// The sources determine by their own set which of their flags were given.
		if f.ofSources.Lookup(flag.Name) != nil {
			if err := f.ofSources.Set(flag.Name, value); err != nil {
				return err
			}
		}
		if f.ofPodconfigd[flag.Name] {
			flag.Changed = true
			return nil
		}
		return f.set.Set(flag.Name, value)
	})
	switch {
	case err != nil:
		return nil, err
	case f.set.NArg() > 0:
		return nil, fmt.Errorf("unknown command %q: the kubelet takes only flags", f.set.Arg(0))
	case f.common.RootDir == "":
		return nil, errors.New("--root-dir must not be empty")
	}
	return list, nil
}

// Usage returns the text of --help.
func Usage() string {
	return "The kubelet's command line, for Podstream: starts podconfigd and podexecd with the flags and the configuration of a kubelet.\n\n" +
		"Usage:\n  kubelet [flags]\n\nFlags:\n" + newFlagSet().set.FlagUsages() +
		"\nEnvironment:\n" +
		"  PODCONFIGD_FLAGS    further flags of podconfigd, such as --metrics-address\n" +
		"  PODEXECD_FLAGS      further flags of podexecd\n" +
		"  PODSTREAM_RUN_DIR   directory of the daemons' sockets (default \"" + socketDir + "\")\n"
}
