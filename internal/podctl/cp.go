package podctl

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstream/podstream/internal/podctl/archive"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The limits of what cp takes from a container, without flags.
const (
	defaultMaxBytes   = 1 << 30
	defaultMaxEntries = 100_000
)

// copyOptions are the arguments and flags of cp.
type copyOptions struct {
	pod       podName
	container string
	// local is a path on this machine, and inside one in the container.
	local, inside string
	// to is set if the container is the destination.
	to         bool
	noPreserve bool
	maxBytes   byteSize
	maxEntries int
}

func (t *tool) cpCommand() *cobra.Command {
	o := copyOptions{maxBytes: defaultMaxBytes}
	cmd := &cobra.Command{
		Use:   "cp SOURCE DESTINATION",
		Short: "Copy files and directories from and to a container",
		Long: `Cp copies a file or a directory from a container on this node, or to one. One of SOURCE and DESTINATION is [NAMESPACE/]POD:PATH, the
other one a path on this machine; a path that begins with / or . is always that. It requires a tar in the container, and the role of an
operator, which root has.

As with kubectl, a directory from a container is copied to DESTINATION itself, and a directory to a container into DESTINATION if that is an
existing directory. A file is always copied into a DESTINATION that is one.

From a container, only regular files and directories are copied. Links, devices and the like are named and left out, and nothing is written
through a link that exists in DESTINATION; the exit code is then 1. A path that ends with / is the directory that a link leads to. Names that
lead elsewhere or have control characters, and more entries or bytes than --max-entries and --max-bytes, end the copy; files that are
complete stay. Files get the permissions that they have in the container, less the umask and without setuid, and the caller's ownership.

To a container, links to regular files below SOURCE are copied as these files, and other links left out.`,
		Example: `  podctl cp web:/etc/app.conf app.conf
  podctl cp -c db ./dump kube-system/store:/tmp
  podctl cp web:/var/log/app/ logs`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("want a source and a destination; there are %d arguments", len(args))
			}
			if o.maxEntries < 1 {
				return errors.New("--max-entries: want a number from 1")
			}
			return o.setPaths(args[0], args[1])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runCopy(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	o.pod.addNamespaceFlag(cmd)
	flags.StringVarP(&o.container, "container", "c", "", "the `name` of the container; by default the one that the pod names, or its first")
	flags.BoolVar(&o.noPreserve, "no-preserve", false, "give the files in the container to root, with the permissions less write for group and others")
	flags.Var(&o.maxBytes, "max-bytes", "the maximum `size` of all files from a container, as 500Mi or 20Gi; a file with holes counts as if it had none")
	flags.IntVar(&o.maxEntries, "max-entries", defaultMaxEntries, "the maximum `number` of files and directories from a container")
	return cmd
}

// setPaths sets the paths, one of which is in a container.
func (o *copyOptions) setPaths(source, destination string) error {
	fromPod, fromPath, from := remotePath(source)
	toPod, toPath, to := remotePath(destination)
	pod := fromPod
	switch {
	case from && to:
		return errors.New("one of source and destination must be a path on this machine")
	case !from && !to:
		return errors.New("one of source and destination must be in a container: [NAMESPACE/]POD:PATH")
	case from:
		o.inside, o.local = fromPath, destination
	default:
		pod, o.inside, o.local, o.to = toPod, toPath, source, true
	}
	if o.inside == "" || o.local == "" {
		return errors.New("a path is empty")
	}
	if o.local == "-" {
		return errors.New("- can't be a source or destination; ./- is a file of that name")
	}
	if namespace, name, ok := strings.Cut(pod, "/"); ok {
		if err := o.pod.namespace.Set(namespace); err != nil {
			return err
		}
		pod = name
	}
	if pod == "" || strings.Contains(pod, "/") {
		return fmt.Errorf("want [NAMESPACE/]POD:PATH; %q isn't a pod", pod)
	}
	o.pod.name = pod
	return nil
}

// remotePath splits POD:PATH. A path that begins with a slash or a dot is one on this machine.
func remotePath(argument string) (pod, path string, ok bool) {
	if strings.HasPrefix(argument, "/") || strings.HasPrefix(argument, ".") {
		return "", "", false
	}
	return strings.Cut(argument, ":")
}

func (t *tool) runCopy(ctx context.Context, o copyOptions) error {
	ref, conn, err := t.connectPod(ctx, o.pod)
	if err != nil {
		return err
	}
	defer conn.Close() // It ends the call too.
	stream, err := podexecv1.NewPodExecServiceClient(conn).Copy(ctx)
	if err != nil {
		return conn.explain(err)
	}
	start := &podexecv1.CopyStart{Ref: ref, Container: o.container, Direction: podexecv1.CopyStart_DIRECTION_FROM_CONTAINER, Path: o.inside}
	if o.to {
		start.Direction = podexecv1.CopyStart_DIRECTION_TO_CONTAINER
	}
	if err := stream.Send(&podexecv1.CopyRequest{Message: &podexecv1.CopyRequest_Start{Start: start}}); err != nil {
		return conn.explain(endOf(stream, &podexecv1.CopyResponse{}, err))
	}
	c := &transfer{stream: stream, t: t}
	opened, err := c.opened()
	if err != nil {
		return conn.explain(err)
	}
	if o.to {
		name := opened.GetName()
		if name == "" {
			if name, err = localName(o.local); err != nil {
				return err
			}
		}
		err = c.send(o.local, archive.Options{Name: name, NoPreserve: o.noPreserve, Skipped: c.skip})
	} else {
		err = c.receive(archive.Source{
			Name: opened.GetName(), Limits: archive.Limits{MaxEntries: o.maxEntries, MaxBytes: int64(o.maxBytes)}, Skipped: c.skip,
		}, o.local, path.Base(path.Clean(o.inside)))
	}
	switch {
	case c.streamErr != nil:
		return conn.explain(c.streamErr)
	case err != nil:
		return err
	case c.skipped > 0:
		return fmt.Errorf("%s left out; the rest was copied", plural(c.skipped, "file"))
	}
	return nil
}

// localName returns the name that a source has in a directory of the container.
func localName(source string) (string, error) {
	whole, err := filepath.Abs(source)
	if err != nil {
		return "", err
	}
	if whole == "/" {
		return "", errors.New("/ has no name: name a directory below it")
	}
	return filepath.Base(whole), nil
}

// byteSize is a number of bytes, as Kubernetes writes it.
type byteSize int64

// String implements pflag.Value.
func (b *byteSize) String() string {
	return resource.NewQuantity(int64(*b), resource.BinarySI).String()
}

// Type implements pflag.Value.
func (b *byteSize) Type() string { return "size" }

// Set implements pflag.Value.
func (b *byteSize) Set(text string) error {
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() <= 0 {
		return errors.New("want a size above 0, as 500Mi")
	}
	value := quantity.Value() // It is rounded up, and bounded.
	if quantity.CmpInt64(value) != 0 {
		return errors.New("want a whole number of bytes, below 8Ei")
	}
	*b = byteSize(value)
	return nil
}
