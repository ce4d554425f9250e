// Command csidriverd is the CSI driver of Podstream's tests as a program: its flags are the options of package csidriver. A test kills
// it at any time, and starts it again on the same directory.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/test/csidriver"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "csidriverd: %v\n", err)
		os.Exit(1)
	}
}

// run runs the driver until SIGTERM.
func run(args []string) error {
	options, err := parse(args)
	if err != nil {
		return err
	}
	// As a test's kill -9: nothing is closed or flushed.
	options.Die = func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	driver, err := csidriver.Start(options)
	if err != nil {
		return err
	}
	fmt.Printf("serving %s\n", driver.Options().Endpoint)
	<-signals
	driver.Stop()
	return nil
}

// parse parses the flags.
func parse(args []string) (csidriver.Options, error) {
	var o csidriver.Options
	var backing, faults string
	capabilities := names(csidriver.AllCapabilities)
	fs := pflag.NewFlagSet("csidriverd", pflag.ContinueOnError)
	fs.StringVar(&o.Dir, "dir", "", "directory of the state; needed")
	fs.StringVar(&o.Name, "name", "", "the driver's name (default csi.podstream.test)")
	fs.StringVar(&o.NodeID, "node-id", "", "the node's ID (default node-1)")
	fs.StringSliceVar(&o.OtherNodes, "other-nodes", nil, "IDs of further nodes to which volumes may be attached")
	fs.StringToStringVar(&o.Topology, "topology", nil, "segments of the node's topology, KEY=VALUE,...")
	fs.Int64Var(&o.MaxVolumes, "max-volumes", 0, "limit of attached volumes of a node; 0: none")
	fs.StringSliceVar(&capabilities, "capabilities", capabilities, "capabilities of the node service")
	fs.BoolVar(&o.AttachRequired, "attach-required", false, "volumes must be attached by the controller service")
	fs.StringVar(&backing, "backing", string(csidriver.Directory), "what volumes are: directory or image")
	fs.BoolVar(&o.Contexts, "contexts", false, "volumes of directories may have the mount option of an SELinux context, which isn't applied")
	fs.StringVar(&o.Endpoint, "endpoint", "", "path of the CSI socket (default csi.sock in --dir)")
	fs.StringVar(&o.Log, "log", "", "path of the calls' log (default calls.jsonl in --dir)")
	fs.StringVar(&o.Control, "control", "", "path of the control socket for faults (default none)")
	fs.StringVar(&faults, "faults", "", "faults from the start, a list of package fault's Fault in JSON")
	fs.StringSliceVar(&o.Volumes, "volumes", nil, "volumes that exist from the start, ID or ID=BYTES")
	fs.StringVar(&o.Registration, "registration", "", "path of the registration socket (default none)")
	fs.StringVar(&o.RegistrationName, "registration-name", "", "name in the registration (default --name)")
	fs.StringSliceVar(&o.RegistrationVersions, "registration-versions", nil, "versions in the registration (default 1.0.0)")
	fs.StringVar(&o.RegistrationEndpoint, "registration-endpoint", "", "endpoint in the registration (default --endpoint)")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unknown argument %q", fs.Arg(0))
	}
	o.Backing = csidriver.Backing(backing)
	o.Capabilities = []csidriver.Capability{}
	for _, c := range capabilities {
		if c != "" {
			o.Capabilities = append(o.Capabilities, csidriver.Capability(c))
		}
	}
	if faults != "" {
		if err := json.Unmarshal([]byte(faults), &o.Faults); err != nil {
			return o, fmt.Errorf("--faults: %w", err)
		}
	}
	return o, nil
}

func names(capabilities []csidriver.Capability) (all []string) {
	for _, c := range capabilities {
		all = append(all, string(c))
	}
	return all
}
