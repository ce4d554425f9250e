package conformance

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podstream/podstream/test/cluster/nodes"
	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/rig"
)

const (
	// ownMounts is set in the process that has mounts of its own.
	ownMounts = "PODSTREAM_TEST_OWN_MOUNTS"
	// kubeletDir is the directory that manifests of CSI drivers mount.
	kubeletDir = "/var/lib/kubelet"
	// hostPathDriver is the driver of the manifest.
	hostPathDriver = "hostpath.csi.k8s.io"
)

// driverManifests are the manifests of csi-driver-host-path and its sidecars, below Kubernetes' test/e2e/testing-manifests/storage-csi.
var driverManifests = []string{
	"external-attacher/rbac.yaml", "external-provisioner/rbac.yaml", "external-resizer/rbac.yaml",
	"external-snapshotter/csi-snapshotter/rbac-csi-snapshotter.yaml", "external-snapshot-metadata/rbac.yaml",
	"external-health-monitor/external-health-monitor-controller/rbac.yaml",
	"hostpath/hostpath/csi-hostpath-driverinfo.yaml", "hostpath/hostpath/csi-hostpath-plugin.yaml",
}

// TestDriverManifest: the manifests of a CSI driver work as upstream wrote them, with mounts of /var/lib/kubelet. A claim is provisioned,
// attached, mounted, written, found again by the next pod, and deleted, by upstream's attacher and provisioner. Only the images of the
// other programs are stand-ins.
func TestDriverManifest(t *testing.T) {
	if !*ofStorage {
		t.Skip("needs -storage, for which the sidecars' programs are built")
	}
	if os.Getenv(ownMounts) == "" {
		inOwnMounts(t)
		return
	}
	// The directories of this machine aren't touched: the process, the runtime and the daemons have these in their place.
	rig.Must(t, unix.Mount("tmpfs", "/var/lib", "tmpfs", 0, "mode=0755"))
	rig.Must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""))
	rig.Must(t, os.Mkdir(kubeletDir, 0o755))

	r := newRunner(t)
	r.stopped = t.Context()
	cluster := rig.Get(nodes.Start(t.Context(), nodes.Config{
		Dir: r.dir, Tools: tools, Runtime: rig.Get(devnode.ContainerdOf(*containerd))(t), Kubelet: *kubelet, Log: os.Stderr, ServesPods: true,
	}))(t)
	t.Cleanup(cluster.Close)
	machine := rig.Get(cluster.NewMachine(t.Context(), "m"))(t)
	t.Cleanup(func() { rig.Must(t, machine.Close()) })
	images := rig.Get(storageImages(cluster))(t)
	for name, image := range rig.Get(driverImages(t.Context(), cluster.BinDir()))(t) {
		images[name] = image
	}
	serveImages(t, machine, nsenter(machine.Endpoint(), kubeletDir), filepath.Join(cluster.BinDir(), "sample"), images)
	node := cluster.NewNode(machine, "node")
	node.PodexecdFlags = []string{"--kubelet-dir", kubeletDir}
	if *kubelet != "" {
		node.PodexecdFlags = []string{"--root-dir", kubeletDir}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(node.Tails())
		}
		rig.Must(t, node.Kill())
	})
	rig.Must(t, node.Launch())
	rig.Must(t, node.AwaitReady(t.Context()))

	k := &kubectl{t: t, kubeconfig: cluster.Kubeconfig}
	k.run("", "create", "secret", "generic", "csi-snapshot-metadata-server-certs", "--from-literal=tls.crt=", "--from-literal=tls.key=")
	dir := manifestsDir(t)
	for _, manifest := range driverManifests {
		k.run("", "apply", "-f", filepath.Join(dir, manifest))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(k.output("get", "pods,pvc,pv,volumeattachments,csinodes,events", "-o", "wide"))
			t.Log(k.output("logs", "csi-hostpathplugin-0", "--all-containers", "--prefix", "--tail=30"))
		}
	})
	k.run("", "rollout", "status", "statefulset/csi-hostpathplugin", "--timeout=4m")
	k.run(claimOfDriver, "apply", "-f", "-")
	k.run(podOfClaim("first"), "apply", "-f", "-")
	k.run("", "wait", "--for=condition=Ready", "--timeout=3m", "pod/first")
	k.run("", "exec", "first", "--", "sh", "-c", "echo canary > /data/file")
	k.run("", "delete", "pod", "first", "--timeout=2m")
	k.run(podOfClaim("second"), "apply", "-f", "-")
	k.run("", "wait", "--for=condition=Ready", "--timeout=3m", "pod/second")
	if got := k.run("", "exec", "second", "--", "cat", "/data/file"); got != "canary\n" {
		t.Errorf("the second pod finds %q", got)
	}
	volume := k.run("", "get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}")
	k.run("", "delete", "pod", "second", "--timeout=2m")
	k.run("", "delete", "pvc", "data", "--timeout=2m")
	k.run("", "wait", "--for=delete", "--timeout=2m", "pv/"+volume)
	if left := string(rig.Get(os.ReadFile("/proc/self/mountinfo"))(t)); regexp.MustCompile(kubeletDir + `/\S*(csi/|` + volume + ")").MatchString(left) {
		t.Errorf("a volume is still mounted:\n%s", left)
	}

	// Without its pod, the driver isn't one of the node any more.
	k.run("", "delete", "statefulset", "csi-hostpathplugin", "--cascade=foreground", "--timeout=3m")
	rig.Must(t, wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		csi, err := cluster.Client.StorageV1().CSINodes().Get(ctx, node.Name, metav1.GetOptions{})
		return err == nil && len(csi.Spec.Drivers) == 0, err
	}))
}

// inOwnMounts runs the test in a process with mounts of its own, which end with it.
func inOwnMounts(t *testing.T) {
	t.Helper()
	args := []string{"-test.run=^TestDriverManifest$", "-test.v", "-storage", "-containerd=" + *containerd, "-kubelet=" + *kubelet, "-out=" + *out}
	cmd := exec.CommandContext(t.Context(), rig.Get(os.Executable())(t), args...)
	cmd.Env = append(os.Environ(), ownMounts+"=1")
	cmd.Dir = filepath.Join("test", "cluster", "conformance")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	// The process dies with the thread that starts it, so this test keeps its thread.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rig.Must(t, cmd.Run())
}

// manifestsDir returns the directory of the manifests, in the module of Kubernetes that test/cluster/programs requires.
func manifestsDir(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	cmd.Dir = filepath.Join("test", "cluster", "programs")
	cmd.Stderr = os.Stderr
	module := strings.TrimSpace(string(rig.Get(cmd.Output())(t)))
	return filepath.Join(module, "test", "e2e", "testing-manifests", "storage-csi")
}

// driverImages are the images of the manifest that storageImages doesn't have: the driver is that of Podstream's tests; the programs that
// watch the driver only wait for its socket.
func driverImages(ctx context.Context, bin string) (map[string]contents, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin+"/", "./test/csidriver/csidriverd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	driver, err := program(filepath.Join(bin, "csidriverd"), 0o755)
	if err != nil {
		return nil, err
	}
	shell := func(script string) v1.Config { return v1.Config{Entrypoint: []string{"/bin/sh", "-c", script, "sh"}} }
	const awaitSocket = "until test -S /csi/csi.sock; do sleep 0.1; done; "
	waits := contents{config: shell(awaitSocket + "exec sleep 1d")}
	return map[string]contents{
		"sig-storage/hostpathplugin:v1.17.1": {shell(`
			for flag; do
				case $flag in
				--drivername=*) set -- "$@" "--name=${flag#*=}" ;;
				--endpoint=unix://*) set -- "$@" "--endpoint=${flag#*=unix://}" ;;
				--nodeid=*) set -- "$@" "--node-id=${flag#*=}" "--topology=topology.hostpath.csi/node=${flag#*=}" ;;
				esac
				shift
			done
			exec /csidriverd --dir=/csi-data-dir --attach-required "$@"`), files{"csidriverd": driver}},
		"sig-storage/livenessprobe:v2.19.0": {config: shell(awaitSocket +
			"mkdir -p /srv && echo ok > /srv/healthz && exec httpd -f -p 9898 -h /srv")},
		"sig-storage/csi-external-health-monitor-controller:v0.18.0": waits,
		"sig-storage/csi-snapshotter:v8.6.0":                         waits,
		"sig-storage/csi-snapshot-metadata:v1.0.0":                   waits,
	}, nil
}

// claimOfDriver is a claim of a class of the driver.
const claimOfDriver = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: hostpath}
provisioner: ` + hostPathDriver + `
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: hostpath, resources: {requests: {storage: 1Mi}}}
`

// podOfClaim is a pod that mounts the claim.
func podOfClaim(name string) string {
	return `
apiVersion: v1
kind: Pod
metadata: {name: ` + name + `}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {fsGroup: 4711}
  containers:
  - {name: c, image: "` + registryHost + "/" + busyboxImage + `", command: [sleep, 1d], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`
}

// kubectl runs kubectl as an administrator.
type kubectl struct {
	t          *testing.T
	kubeconfig string
}

// run returns what a command prints. It must succeed.
func (k *kubectl) run(input string, args ...string) string {
	k.t.Helper()
	cmd := exec.CommandContext(k.t.Context(), filepath.Join(tools, "kubectl"), append([]string{"--kubeconfig", k.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var problems strings.Builder
	cmd.Stderr = &problems
	output, err := cmd.Output()
	if err != nil {
		k.t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, output, problems.String())
	}
	return string(output)
}

// output returns all that a command prints, also if it fails or the test has ended.
func (k *kubectl) output(args ...string) string {
	output, err := exec.Command(filepath.Join(tools, "kubectl"), append([]string{"--kubeconfig", k.kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		return string(output) + err.Error()
	}
	return string(output)
}
