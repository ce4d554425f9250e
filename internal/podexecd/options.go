package podexecd

import (
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/client/shard"
	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletdir"
)

// about begins the help.
const about = "Podexecd runs the pods that podconfigd publishes: it drives a container runtime over CRI, and shows what runs."

// Options are podexecd's parsed flags and configuration.
type Options struct {
	daemon.Flags
	node               string
	podconfigEndpoints []string
	podconfigOrder     string
	podconfigTLS       client.TLS
	podsAPISocket      string
	// kubeletDir is --kubelet-dir.
	kubeletDir string
	// volumeDir is --volume-dir.
	volumeDir string
	// adoptKubelet has the pods of a kubelet adopted whose directories are --kubelet-dir and --pod-logs-dir.
	adoptKubelet bool
	// maxRemovals bounds how many pods podconfigd can end in a minute. Zero: no bound.
	maxRemovals int
	settings    *execconfig.Settings
	// flags are the flags with their values, without secrets.
	flags map[string]string
}

// Program returns podexecd's main.
func Program() daemon.Program[*Options] {
	return daemon.Program[*Options]{Name: "podexecd", Parse: parse, Serve: serve}
}

func parse(args []string, stdout io.Writer) (*Options, error) {
	opts := &Options{}
	var exec execconfig.Flags
	var config kubeletconfig.Paths
	fs := opts.NewFlagSet("podexecd", about, stdout)
	fs.StringVar(&config.Config, "config", "", "`file` with a KubeletConfiguration; flags take precedence")
	fs.StringVar(&config.Dir, "config-dir", "", "`directory` of drop-ins, *.conf, for --config")
	fs.StringSliceVar(&opts.podconfigEndpoints, "podconfig-endpoint", []string{client.DefaultEndpoint},
		"podconfigd's `addresses`, unix:///path or tcp://host:port; of several, or of a host with several addresses, a healthy one is used; "+
			"{shard/N} is the number of this node's shard of N: see podconfigd's --total-shards")
	fs.StringVar(&opts.podconfigOrder, "podconfig-endpoint-order", string(client.Random),
		"`order` in which several addresses are tried: random, which spreads the nodes, and spreads them again 4 to 7 minutes after one was "+
			"away, or listed, which goes back to the first one after 10 to 15 minutes")
	fs.StringVar(&opts.podconfigTLS.CertFile, "podconfig-cert-file", "",
		"`file` of this node's certificate for a podconfigd on tcp://")
	fs.StringVar(&opts.podconfigTLS.KeyFile, "podconfig-key-file", "", "`file` of the key of --podconfig-cert-file")
	fs.StringVar(&opts.podconfigTLS.CAFile, "podconfig-ca-file", "",
		"`file` of the CAs of podconfigd's certificate; default: the system's")
	fs.StringVar(&opts.podsAPISocket, "pods-api-socket", "",
		"`path` of the socket of the Kubelet Pods API (KEP-4188), for root; default: pods-api/kubelet.sock in --root-dir")
	fs.StringVar(&opts.kubeletDir, "kubelet-dir", kubeletdir.Default, kubeletdir.Usage)
	fs.StringVar(&opts.volumeDir, "volume-dir", "",
		"`directory` of the volumes of static pods' claims, NAMESPACE/CLAIM each; podexecd never removes one by itself; default: claims in --root-dir")
	fs.BoolVar(&opts.adoptKubelet, "adopt-kubelet-pods", false,
		"adopt the running pods of a kubelet that is stopped, whose directory is --kubelet-dir, without a restart of their containers")
	fs.IntVar(&opts.maxRemovals, "max-removals-per-minute", 0,
		"`number` of running pods that podconfigd can end within a minute; further ones run on for now, with the event RemovalHeld; 0: no limit")
	fs.StringVar(&opts.LogFormat, "logging-format", opts.LogFormat, "as --log-format")
	exec.AddFlags(fs)
	check := fs.Bool("check-config", false, "print the effective configuration, or the errors of flags and configuration, and exit")
	if err := opts.Parse(fs, args); err != nil {
		return nil, err
	}
	if opts.maxRemovals < 0 {
		return nil, fmt.Errorf("--max-removals-per-minute %d: want 0, for no limit, or a number of pods", opts.maxRemovals)
	}
	opts.flags = flagValues(fs)
	for flag, path := range map[string]*string{
		"--root-dir": &opts.RootDir, "--config": &config.Config, "--config-dir": &config.Dir, "--pods-api-socket": &opts.podsAPISocket,
		"--kubelet-dir": &opts.kubeletDir, "--volume-dir": &opts.volumeDir,
	} {
		if err := makeAbsolute(flag, path); err != nil {
			return nil, err
		}
	}
	if err := kubeletdir.CheckPath(opts.kubeletDir); err != nil {
		return nil, err
	}
	if opts.podsAPISocket == "" {
		opts.podsAPISocket = filepath.Join(opts.RootDir, "pods-api", "kubelet.sock")
	}
	if opts.volumeDir == "" {
		opts.volumeDir = filepath.Join(opts.RootDir, "claims")
	}
	config.Given = true
	files, err := kubeletconfig.Load(config)
	if err != nil {
		return nil, err
	}
	if opts.settings, err = exec.Settle(files); err != nil {
		return nil, err
	}
	for flag, path := range map[string]*string{
		"--kubeconfig": &opts.settings.Kubeconfig, "--bootstrap-kubeconfig": &opts.settings.BootstrapKubeconfig, "--cert-dir": &opts.settings.CertDir,
	} {
		if err := makeAbsolute(flag, path); err != nil {
			return nil, err
		}
	}
	if opts.node, err = opts.NodeName(); err != nil {
		return opts, err
	}
	if err := opts.checkEndpoints(); err != nil {
		return nil, err
	}
	if !*check {
		return opts, nil
	}
	if err := opts.print(stdout); err != nil {
		return nil, err
	}
	return nil, pflag.ErrHelp
}

// makeAbsolute makes a path absolute; an empty one stays empty.
func makeAbsolute(flag string, path *string) error {
	if *path == "" {
		return nil
	}
	abs, err := filepath.Abs(*path)
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	*path = abs
	return nil
}

// print writes the effective configuration, for --check-config: a summary, then the whole KubeletConfiguration.
func (o *Options) print(w io.Writer) error {
	s := o.settings
	fmt.Fprintf(w, "node: %s\npodconfigd: %s\nruntime: %s\nimages: %s\nlogs: %s\nkubelet directory: %s\n", o.node, o.endpoint(), s.RuntimeEndpoint, s.ImageEndpoint, s.PodLogsDir, o.kubeletDir)
	fmt.Fprintf(w, "restart backoff: %v to %v\npull backoff: %v to %v\n", s.RestartBackoff.Base, s.RestartBackoff.Max, s.PullBackoff.Base, s.PullBackoff.Max)
	for _, list := range []struct {
		what   string
		fields []string
	}{{"not supported", s.Unsupported}, {"podconfigd's", s.Podconfigd}, {"ignored", s.Ignored}} {
		if len(list.fields) > 0 {
			fmt.Fprintf(w, "%s: %s\n", list.what, strings.Join(list.fields, ", "))
		}
	}
	for _, exception := range s.Exceptions {
		fmt.Fprintf(w, "exception: %s\n", exception)
	}
	for _, warning := range s.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	effective := s.KubeletConfiguration()
	effective.Kind, effective.APIVersion = kubeletconfig.Kind, kubeletconfig.APIVersion
	config, err := yaml.Marshal(effective)
	if err != nil {
		return fmt.Errorf("the effective configuration: %w", err)
	}
	_, err = fmt.Fprintf(w, "---\n%s", config)
	return err
}

// report logs the parts of the configuration that have no effect.
func (o *Options) report(log *slog.Logger) {
	for _, warning := range o.settings.Warnings {
		log.Warn("configuration", "warning", warning)
	}
	if fields := o.settings.Unsupported; len(fields) > 0 {
		log.Warn("set in the configuration but not supported by this version", "fields", fields)
	}
	if fields := o.settings.Ignored; len(fields) > 0 {
		log.Warn("set in the configuration but not supported, and ignored", "fields", fields)
	}
	if fields := o.settings.Podconfigd; len(fields) > 0 {
		log.Info("set in the configuration for podconfigd", "fields", fields)
	}
}

// maxConsumerName is podconfigd's limit for a consumer's name, in bytes; a node's name may be as long.
const maxConsumerName = 253

// endpoint returns the endpoints of podconfigd as one list.
func (o *Options) endpoint() string { return strings.Join(o.podconfigEndpoints, ",") }

// checkEndpoints puts the node's shard into the endpoints, and checks them.
func (o *Options) checkEndpoints() error {
	for i, endpoint := range o.podconfigEndpoints {
		expanded, err := shard.Expand(endpoint, o.node)
		if err != nil {
			return fmt.Errorf("--podconfig-endpoint %s: %w", endpoint, err)
		}
		o.podconfigEndpoints[i] = expanded
	}
	if _, err := client.SplitEndpoints(o.endpoint()); err != nil {
		return fmt.Errorf("--podconfig-endpoint %s: %w", o.endpoint(), err)
	}
	if order := client.Order(o.podconfigOrder); order != client.Random && order != client.Listed {
		return fmt.Errorf("--podconfig-endpoint-order %s: want %s or %s", order, client.Random, client.Listed)
	}
	return nil
}

// stream returns the configuration of the connection to podconfigd. Over TLS a consumer's name is that of its
// certificate.
func (o *Options) stream(log *slog.Logger) client.Config {
	name := "podexecd@" + o.node
	cfg := client.Config{
		Endpoint: o.endpoint(), Order: client.Order(o.podconfigOrder), SpreadKey: o.node,
		Consumer: name[:min(len(name), maxConsumerName)], Logger: log,
	}
	if strings.HasPrefix(cfg.Endpoint, "tcp://") {
		cfg.Consumer, cfg.TLS = "", o.podconfigTLS
	}
	return cfg
}
