package systemd_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// composed is where hack/vm/compose.sh put docker-compose.yml and what docker builds the images from.
	composed = share + "/composed"
	// madeByPod is a directory that only the pod's volume makes.
	madeByPod = "/srv/made"
	// unusedImage is an image that no pod uses.
	unusedImage = "localhost/podstream-unused:dev"
)

// compose is a version of Compose.
type compose struct {
	version string
	argv    []string
}

// composes are the versions. The first is a program in Python, in a root of its own.
var composes = []compose{
	{"v1", []string{"env", "DOCKER_HOST=unix:///run/docker.sock", "chroot", share + "/compose-v1", "docker-compose"}},
	{"v2", []string{"docker", "compose"}},
}

func (c compose) run(t *testing.T, args ...string) {
	t.Helper()
	// As deploy/node-dirs.sh says on a node with that user.
	user := "PODSTREAM_USER=" + userID(t) + ":" + must(t, "id", "-g", "_podconfigd")
	must(t, slices.Concat([]string{"env", user}, c.argv, []string{"--file", composed + "/docker-compose.yml"}, args)...)
}

// TestCompose: docker-compose.yml runs both daemons as it is, with Compose 1 and 2. Their containers, in a namespace of
// Docker's in the same containerd, may be restarted, removed and made again: no container of a pod restarts.
func TestCompose(t *testing.T) {
	must(t, "systemctl", "disable", "--now", "podexecd.socket", "podconfigd.socket", podexecd, podconfigd)
	must(t, "systemd-run", "--unit=dockerd", "--property=Type=notify", "--property=Delegate=yes", "--property=KillMode=process",
		"dockerd", "--containerd=/run/containerd/containerd.sock", "--iptables=false", "--ip6tables=false", "--bridge=none")
	for _, daemon := range []string{"podconfigd", "podexecd"} {
		must(t, "docker", "build", "--file", composed+"/Dockerfile", "--build-arg", "DAEMON="+daemon, "--tag", "podstream/"+daemon+":dev", composed)
	}
	if err := importImages(map[string][]string{unusedImage: {"unused"}}); err != nil {
		t.Fatal(err)
	}
	var before map[string]string
	for _, c := range composes {
		// The pods of one version are there for the next.
		ok := t.Run(c.version, func(t *testing.T) {
			out, _ := run(append(slices.Clip(c.argv), "version")...)
			t.Log(out)
			c.run(t, "up", "--detach")
			awaitDocked(t)
			if before == nil {
				before = composedPod(t)
			}
			wantSame(t, "after up", before)
			for _, service := range []string{"podconfigd", "podexecd"} {
				was := docked(t, service)
				c.run(t, "restart", service)
				if is := docked(t, service); is == was {
					t.Errorf("%s is still the process %s", service, was)
				}
				worksWith(t, "after-"+service+"-"+c.version)
				wantSame(t, "after a restart of "+service, before)
			}
			c.run(t, "down")
			if left := must(t, "docker", "ps", "--all", "--quiet"); left != "" {
				t.Errorf("after down docker has the containers %s", left)
			}
			wantSame(t, "after down", before)
			c.run(t, "up", "--detach")
			awaitDocked(t)
			worksWith(t, "again-"+c.version)
			wantSame(t, "after down and up", before)
			if c.version == "v2" {
				separate(t, before)
				remove(t, "composed")
			}
			c.run(t, "down")
		})
		if !ok {
			return
		}
	}
}

// docked returns the process of a daemon's container.
func docked(t *testing.T, service string) string {
	t.Helper()
	id := must(t, "docker", "ps", "--no-trunc", "--quiet", "--filter", "ancestor=podstream/"+service+":dev")
	if id == "" {
		t.Fatalf("docker runs no %s", service)
	}
	return must(t, "docker", "inspect", "--format", "{{.Id}} {{.State.Pid}} {{.RestartCount}}", id)
}

// awaitDocked waits until both daemons serve.
func awaitDocked(t *testing.T) {
	t.Helper()
	for _, call := range []string{"sources", "events"} {
		eventually(t, "the daemon of podctl "+call+" serves", func() error {
			_, err := run("/usr/local/bin/podctl", call)
			return err
		})
	}
}

// composedPod writes a pod with an emptyDir and a hostPath, which stays until the end of the test of all versions.
func composedPod(t *testing.T) map[string]string {
	t.Helper()
	const name = "composed"
	spec := `volumeMounts: [{name: e, mountPath: /e}, {name: h, mountPath: /h}]}],
  volumes: [{name: e, emptyDir: {medium: Memory, sizeLimit: 1Mi}}, {name: h, hostPath: {path: ` + madeByPod + `, type: DirectoryOrCreate}}]}}
`
	if err := os.WriteFile(filepath.Join(manifests, name+".yaml"), []byte(manifest(name, spec)), 0o644); err != nil {
		t.Fatal(err)
	}
	ids := awaitRunning(t, name)
	root := "/proc/" + pidOf(t, name) + "/root"
	empty, err := filepath.Glob(kubeletDir + "/pods/*/volumes/kubernetes.io~empty-dir/e")
	if err != nil || len(empty) != 1 {
		t.Fatalf("the volumes on the node are %q, %v; want one", empty, err)
	}
	for dir, inside := range map[string]string{empty[0]: "/e", madeByPod: "/h"} {
		err := os.WriteFile(filepath.Join(dir, "file"), []byte("from the node"), 0o644)
		got, failed := os.ReadFile(root + inside + "/file")
		if err := errors.Join(err, failed); err != nil || string(got) != "from the node" {
			t.Errorf("the pod reads %q at %s, %v", got, inside, err)
		}
	}
	return ids
}

// worksWith checks that both daemons work: a new pod runs, and is removed.
func worksWith(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(manifests, name+".yaml"), []byte(manifest(name, plain)), 0o644); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, name)
	remove(t, name)
}

// separate checks that Docker's containers aren't among those of pods, and that podexecd has the figures of the images'
// disk: when that is nearly full, it removes an unused image, and neither a pod nor anything of Docker's.
func separate(t *testing.T, before map[string]string) {
	t.Helper()
	dockers := strings.Fields(must(t, "ctr", "--namespace", "moby", "containers", "list", "--quiet"))
	if len(dockers) != 2 {
		t.Errorf("Docker has the containers %q in containerd; want two", dockers)
	}
	pods := must(t, "ctr", "--namespace", "k8s.io", "containers", "list", "--quiet")
	for _, id := range dockers {
		if strings.Contains(pods, id) {
			t.Errorf("Docker's container %s is in the namespace of pods", id)
		}
	}
	images := must(t, "docker", "images", "--quiet", "--no-trunc")
	was := docked(t, "podconfigd") + docked(t, "podexecd")
	fill(t, "/var/lib/containerd")
	// An image is removed at the earliest two minutes after podexecd has detected it.
	eventuallyWithin(t, 2*time.Minute+2*patience, "podexecd removes the unused image", func() error {
		if left := must(t, "ctr", "--namespace", "k8s.io", "images", "list", "--quiet"); strings.Contains(left, unusedImage) {
			return fmt.Errorf("containerd has the images %s", left)
		}
		return nil
	})
	wantSame(t, "after the disk was nearly full", before)
	if now := must(t, "docker", "images", "--quiet", "--no-trunc"); now != images {
		t.Errorf("Docker has the images %q; want %q", now, images)
	}
	if is := docked(t, "podconfigd") + docked(t, "podexecd"); is != was {
		t.Errorf("Docker's containers are %s; want %s", is, was)
	}
}

// fill fills the file system of a directory until the test ends, so that less is free than podexecd's threshold of
// imagefs.available, 15%.
func fill(t *testing.T, dir string) {
	t.Helper()
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	size := (disk.Bavail - disk.Blocks/10) * uint64(disk.Bsize)
	path := filepath.Join(dir, "filled")
	must(t, "fallocate", "--length", strconv.FormatUint(size, 10), path)
	t.Cleanup(func() { must(t, "rm", path) })
}
