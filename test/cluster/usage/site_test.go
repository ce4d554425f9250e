package usage

import (
	"context"
	"errors"
	"fmt"
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

// site is a cluster: its control plane, and a machine with nodes.
type site struct {
	dir, tools string
	runtime    devnode.Runtime
	plane      *control.Plane
	client     kubernetes.Interface
	machine    *devnode.Node
	// ip is the machine's own address, at which the API server reaches its nodes.
	ip string
	// kubeconfig is an administrator's.
	kubeconfig string
	// main is the node that tests share.
	main *node
}

// startSite starts everything, with the programs in the directory tools.
func startSite(ctx context.Context, tools string, runtime devnode.Runtime) (_ *site, err error) {
	if err := devnode.Check(devnode.Config{Runtime: runtime}); err != nil {
		return nil, err
	}
	s := &site{tools: tools, runtime: runtime}
	if s.dir, err = os.MkdirTemp("", "usage"); err != nil { // short, as it holds sockets
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		if s.main != nil {
			err = fmt.Errorf("%w\n%s", err, s.main.tails())
		}
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *site) start(ctx context.Context) error {
	ip, err := utilnet.ChooseHostInterface()
	if err != nil {
		return fmt.Errorf("find the machine's address: %w", err)
	}
	s.ip = ip.String()
	if err := s.provide(); err != nil {
		return err
	}
	if err := s.startPlane(ctx); err != nil {
		return err
	}
	if s.machine, err = s.newMachine(ctx, "machine"); err != nil {
		return err
	}
	s.main = &node{site: s, machine: s.machine, name: "main"}
	if err := s.main.launch(); err != nil {
		return err
	}
	return s.main.awaitReady(ctx)
}

// newMachine starts a containerd with all images.
func (s *site) newMachine(ctx context.Context, name string) (*devnode.Node, error) {
	m, err := devnode.Start(ctx, devnode.Config{Dir: filepath.Join(s.dir, name), Runtime: s.runtime, BinDir: s.bin(), Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	if err := importImages(ctx, m, filepath.Join(s.bin(), "sample")); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// bin is where the programs that are built here are.
func (s *site) bin() string { return filepath.Join(s.dir, "bin") }

func (s *site) startPlane(ctx context.Context) (err error) {
	dir := filepath.Join(s.dir, "plane")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	audit, err := auditFlags(dir)
	if err != nil {
		return err
	}
	s.plane, err = control.Start(ctx, control.Config{Dir: dir, Etcd: filepath.Join(s.tools, "etcd"), Tools: s.tools, ServerFlags: append(audit,
		"--allow-privileged", "--enable-bootstrap-token-auth",
		"--enable-admission-plugins=PodNodeSelector", // a namespace has a node
	)})
	if err != nil {
		return err
	}
	if s.client, err = s.plane.Client(ctx); err != nil {
		return err
	}
	s.kubeconfig = s.plane.Path("admin.kubeconfig")
	if err := s.plane.Authority.WriteKubeconfig(s.kubeconfig, s.plane.URL, s.plane.Path("admin.pem")); err != nil {
		return err
	}
	if err := s.plane.StartManagers(ctx); err != nil {
		return err
	}
	return s.grant(ctx)
}

// grant gives the roles that whoever sets a cluster up gives: the API server's at nodes, and those of machines that join.
func (s *site) grant(ctx context.Context) error {
	const joining = "system:bootstrappers"
	var errs []error
	for role, subject := range map[string]rbacv1.Subject{
		"system:kubelet-api-admin": {Kind: rbacv1.UserKind, Name: control.KubeletClient},
		"system:node-bootstrapper": {Kind: rbacv1.GroupKind, Name: joining},
		"system:certificates.k8s.io:certificatesigningrequests:nodeclient":     {Kind: rbacv1.GroupKind, Name: joining},
		"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient": {Kind: rbacv1.GroupKind, Name: "system:nodes"},
	} {
		subject.APIGroup = rbacv1.GroupName
		_, err := s.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "usage:" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{subject},
		}, metav1.CreateOptions{})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// close ends everything, the machine first: its daemons have no server to miss then.
func (s *site) close() error {
	var errs []error
	if s.machine != nil {
		errs = append(errs, s.machine.Close())
	}
	if s.plane != nil {
		s.plane.Close()
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// provide puts into bin the node's daemons and the sample program, which is all that there is in its image.
func (s *site) provide() error {
	if err := s.build([]string{"CGO_ENABLED=0"}, "-trimpath", "-ldflags=-s -w", "./test/sample"); err != nil {
		return err
	}
	if *kubelet != "" {
		return os.Symlink(*kubelet, filepath.Join(s.bin(), "kubelet"))
	}
	return s.build(nil, "./cmd/podconfigd", "./cmd/podexecd")
}

func (s *site) build(env []string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-o", s.bin() + "/"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, output)
	}
	return nil
}
