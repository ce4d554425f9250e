package conformance

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstream/podstream/test/cluster/nodes"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

// machineSpec is what the suite of test/e2e_node requires of a machine, in place of its own specification, which
// names controllers and kernel options that the specs here don't use.
const machineSpec = "os: Linux\nkernelSpec:\n  versions: ['.*']\ncgroups: [cpu, memory]\n"

// tokenLife is longer than a run.
const tokenLife = 24 * time.Hour

// prepareNode configures a node for the specs of test/e2e_node, which use fixed ports, and read the directory of
// static pods from the node's configuration.
func prepareNode(node *nodes.Node) {
	node.Config = "staticPodPath: " + node.Path("manifests") + "\n"
	node.PodexecdFlags = append(node.PodexecdFlags, "--healthz-port=10248", "--read-only-port=10255")
}

// nodeSpecs returns the program of test/e2e_node. It uses the cluster and the node of this run instead of its own
// (--start-services=false), and a stand-in for systemd.
func (r *runner) nodeSpecs(t *testing.T, cluster *nodes.Cluster, node *nodes.Node, images []string) specs {
	t.Helper()
	pull(t, node.Machine, images)
	program := r.path("e2e_node.test") // the suite writes beside its program
	if err := os.Remove(program); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	rig.Must(t, os.Symlink(filepath.Join(tools, "e2e_node.test"), program))
	rig.Must(t, os.WriteFile(r.path("machine.yaml"), []byte(machineSpec), 0o644))
	manager := startManager(t, r.dir, node, node.Machine.Runtime())
	return specs{
		program: program, processes: 1, enter: enterCgroup(node), env: []string{"PATH=" + manager.path()},
		args: []string{
			"--start-services=false", "--stop-services=false", "--prepull-images=false", "--host=" + cluster.Plane.URL,
			"--bearer-token=" + administratorToken(t, cluster), "--node-name=" + node.Name,
			"--container-runtime-endpoint=" + node.Machine.Endpoint(), "--container-runtime-pid-file=" + manager.pidFile(),
			"--system-spec-file=" + r.path("machine.yaml"),
		},
	}
}

// enterCgroup returns a command that runs its arguments where /sys/fs/cgroup/memory is the cgroup below which the
// node's pods are: the specs look for them at the root. On cgroup v2 they don't.
func enterCgroup(node *nodes.Node) []string {
	const memory = "/sys/fs/cgroup/memory"
	if _, err := os.Stat(memory); err != nil {
		return nil
	}
	return []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" ` + memory + ` && exec "$@"`, filepath.Join(memory, node.CgroupRoot())}
}

// administratorToken returns a token of a service account that has all rights.
func administratorToken(t *testing.T, cluster *nodes.Cluster) string {
	t.Helper()
	const name, namespace = "specs", metav1.NamespaceSystem
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	rig.Get(cluster.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}))(t)
	rig.Get(cluster.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "test:specs"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
	}, metav1.CreateOptions{}))(t)
	seconds := int64(tokenLife / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	return rig.Get(cluster.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, request, metav1.CreateOptions{}))(t).Status.Token
}

// pull pulls images, which the pods of test/e2e_node never do.
func pull(t *testing.T, machine *devnode.Node, images []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	conn := rig.Get(grpc.NewClient(machine.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	for _, image := range images {
		rig.Get(runtimeapi.NewImageServiceClient(conn).PullImage(ctx, &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: image}}))(t)
	}
}
