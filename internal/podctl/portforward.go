package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/forward"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// portForwardOptions are the arguments and flags of port-forward.
type portForwardOptions struct {
	pod       podName
	ports     []forward.Port
	addresses []string
}

func (t *tool) portForwardCommand() *cobra.Command {
	var o portForwardOptions
	cmd := &cobra.Command{
		Use:   "port-forward POD [LOCAL:]REMOTE...",
		Short: "Forward local ports to a pod",
		Long: `Port-forward listens on this machine and carries each connection to a port of a pod on this node, as if it came from the pod itself.
REMOTE is a number, or the name of a port of the pod's containers. Without LOCAL the local port is the same, and with an empty one it is a
free one. It ends with the pod, and with Ctrl-C. It requires the role of an operator, which root has.

Every user of this machine can connect to the local port. Other machines can't, unless --address names another address than localhost.`,
		Example: `  podctl port-forward web 8080:80
  podctl port-forward web :http
  podctl port-forward --address 0.0.0.0 web 8080 9090`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("want a pod and at least one port; there are %d arguments", len(args))
			}
			o.pod.set(args[0])
			for _, text := range args[1:] {
				port, err := forward.Parse(text)
				if err != nil {
					return err
				}
				o.ports = append(o.ports, port)
			}
			return forward.CheckAddresses(o.addresses)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runPortForward(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	o.pod.addNamespaceFlag(cmd)
	flags.StringSliceVar(&o.addresses, "address", []string{"localhost"},
		"the `addresses` to listen on: IP addresses, or localhost for 127.0.0.1 and ::1, of which one is enough")
	return cmd
}

func (t *tool) runPortForward(ctx context.Context, o portForwardOptions) error {
	ref, conn, err := t.connectPod(ctx, o.pod)
	if err != nil {
		return err
	}
	defer conn.Close()
	f := forward.New(forward.Config{
		Client: podexecv1.NewPodExecServiceClient(conn), Pod: ref, Ports: o.ports, Addresses: o.addresses, Out: t.Stdout,
		Failed: func(local int, remote int32, err error) {
			t.note("an error occurred forwarding %d -> %d: %v", local, remote, conn.explain(err))
		},
	})
	switch err := f.Run(ctx); {
	case ctx.Err() != nil:
		return nil // The user ended it: no failure.
	case errors.Is(err, io.EOF):
		return fmt.Errorf("lost connection to pod %s", o.pod)
	case errors.As(err, new(*forward.LocalError)):
		return err
	default:
		return conn.explain(err)
	}
}
