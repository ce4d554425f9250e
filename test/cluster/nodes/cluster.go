package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/devnode"
)

// Config configures a cluster.
type Config struct {
	// Dir is the directory of all its files. Its path must be short, because it has sockets. What an earlier cluster
	// left there is removed. Required.
	Dir string
	// Tools is the directory of the control plane's programs. Required; hack/build-cluster.sh provides them.
	Tools string
	// Runtime runs the pods. Zero means containerd 1.7.
	Runtime devnode.Runtime
	// Kubelet is the path of a kubelet that runs on each node instead of podconfigd and podexecd. Empty means
	// none.
	Kubelet string
	// ServerFlags are additional flags of kube-apiserver.
	ServerFlags []string
	// ServesPods is set if the API server also listens on the machine's other addresses, so that pods reach it at the Cluster's IP.
	ServesPods bool
	// Bare is set for a control plane without controllers, scheduler and service accounts. Pods are then created with their
	// node's name.
	Bare bool
	// Log receives a line for each step that takes long. Nil means no log.
	Log io.Writer
}

// Cluster is a control plane, and the programs of its nodes.
type Cluster struct {
	Plane *control.Plane
	// Client is an administrator's client. Kubeconfig is a file with the same credentials.
	Client     kubernetes.Interface
	Kubeconfig string
	// IP is the machine's address, at which the API server reaches its nodes.
	IP string

	config Config
}

// Start builds the programs and starts the control plane. The working directory must be the root of Podstream's
// module, whose programs are built.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if err := devnode.Check(devnode.Config{Runtime: config.Runtime}); err != nil {
		return nil, err
	}
	c := &Cluster{config: config}
	ip, err := utilnet.ChooseHostInterface()
	if err != nil {
		return nil, fmt.Errorf("find the machine's address: %w", err)
	}
	c.IP = ip.String()
	if err := errors.Join(os.RemoveAll(c.BinDir()), os.RemoveAll(c.planeDir())); err != nil {
		return nil, err
	}
	if err := c.provide(ctx); err != nil {
		return nil, err
	}
	if err := c.startPlane(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// BinDir returns the directory of the built programs: the node's daemons, and sample.
func (c *Cluster) BinDir() string { return filepath.Join(c.config.Dir, "bin") }

func (c *Cluster) planeDir() string { return filepath.Join(c.config.Dir, "plane") }

// provide fills BinDir. The sample program's image has only that program.
func (c *Cluster) provide(ctx context.Context) error {
	if err := c.build(ctx, []string{"CGO_ENABLED=0"}, "-trimpath", "-ldflags=-s -w", "./test/sample"); err != nil {
		return err
	}
	if c.config.Kubelet != "" {
		return os.Symlink(c.config.Kubelet, filepath.Join(c.BinDir(), "kubelet"))
	}
	return c.build(ctx, nil, "./cmd/podconfigd", "./cmd/podexecd")
}

func (c *Cluster) build(ctx context.Context, env []string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", c.BinDir() + "/"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, output)
	}
	return nil
}

func (c *Cluster) startPlane(ctx context.Context) (err error) {
	dir := c.planeDir()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	flags := []string{"--allow-privileged", "--enable-bootstrap-token-auth"}
	if c.config.Bare {
		// No controller creates the accounts that the first requires, or removes the taint that the second adds.
		flags = append(flags, "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
	}
	var addresses []net.IP
	if c.config.ServesPods {
		flags = append(flags, "--bind-address=0.0.0.0")
		addresses = append(addresses, net.ParseIP(c.IP))
	}
	c.Plane, err = control.Start(ctx, control.Config{
		Dir: dir, Etcd: filepath.Join(c.config.Tools, "etcd"), Tools: c.config.Tools,
		ServerFlags: append(flags, c.config.ServerFlags...), Addresses: addresses,
	})
	if err != nil {
		return err
	}
	if c.Client, err = c.Plane.Client(ctx); err != nil {
		return err
	}
	c.Kubeconfig = c.Plane.Path("admin.kubeconfig")
	if err := c.Plane.Authority.WriteKubeconfig(c.Kubeconfig, c.Plane.URL, c.Plane.Path("admin.pem")); err != nil {
		return err
	}
	if !c.config.Bare {
		if err := c.Plane.StartManagers(ctx); err != nil {
			return err
		}
	}
	return c.grant(ctx)
}

// grant creates the role bindings that a cluster's administrator creates: for the API server at nodes, and for
// machines that join.
func (c *Cluster) grant(ctx context.Context) error {
	const joining = "system:bootstrappers"
	var errs []error
	for role, subject := range map[string]rbacv1.Subject{
		"system:kubelet-api-admin": {Kind: rbacv1.UserKind, Name: control.KubeletClient},
		"system:node-bootstrapper": {Kind: rbacv1.GroupKind, Name: joining},
		"system:certificates.k8s.io:certificatesigningrequests:nodeclient":     {Kind: rbacv1.GroupKind, Name: joining},
		"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": {Kind: rbacv1.GroupKind, Name: "system:nodes"},
	} {
		subject.APIGroup = rbacv1.GroupName
		_, err := c.Client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "test:" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{subject},
		}, metav1.CreateOptions{})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// NewMachine starts a containerd for nodes. The caller closes it before the cluster, so that its daemons don't
// lose their server.
func (c *Cluster) NewMachine(ctx context.Context, name string) (*devnode.Node, error) {
	return devnode.Start(ctx, devnode.Config{
		Dir: filepath.Join(c.config.Dir, name), Runtime: c.config.Runtime, BinDir: c.BinDir(), Log: c.config.Log,
	})
}

// Close ends the control plane. Its files stay in the directory.
func (c *Cluster) Close() {
	if c.Plane != nil {
		c.Plane.Close()
	}
}
