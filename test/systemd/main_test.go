package systemd_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/podstream/podstream/test/devnode"
)

const (
	// share is where hack/vm/systemd.sh put the programs.
	share = "/podstream"
	// packages is where hack/vm/packages.sh put the packages, in old and new. Then nothing is installed by hand.
	packages = share + "/packages"
	// stores is the file system of both daemons' stores.
	stores = "/var/lib/podstream"
	// kubeletDir is podexecd's --kubelet-dir.
	kubeletDir = "/var/lib/kubelet"
	// manifests is podconfigd's default.
	manifests = "/etc/podstream/manifests"
)

func TestMain(m *testing.M) {
	if _, err := os.Stat(filepath.Join(share, "deploy/systemd")); err != nil {
		fmt.Println("skipped: this isn't the guest; hack/vm/systemd.sh, storage.sh, compose.sh and packages.sh run these tests")
		return
	}
	setUp := install
	if _, err := os.Stat(packages); err == nil {
		setUp = podImages
	}
	if err := setUp(); err != nil {
		fmt.Println("install:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// run runs a program and returns its output.
func run(argv ...string) (string, error) {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// install installs the units as docs/install.md says, unless an earlier run of this program has, and starts them.
func install() error {
	const image = "/var/tmp/stores.img"
	if _, err := os.Stat(image); err == nil {
		return nil
	}
	for _, argv := range [][]string{
		{"cp", "--sparse=always", share + "/stores.img", image},
		{"sh", "-c", "echo '" + image + " " + stores + " ext4 loop 0 0' >>/etc/fstab"},
		{"systemctl", "daemon-reload"},
		{"mkdir", "-p", stores},
		{"systemctl", "start", "var-lib-podstream.mount"},
		{"install", "-D", "-m", "0644", share + "/deploy/podstream.sysusers.conf", "/etc/sysusers.d/podstream.conf"},
		{"systemd-sysusers", "/etc/sysusers.d/podstream.conf"},
		{"sh", share + "/deploy/node-dirs.sh"},
		{"sh", "-c", "install -m 0755 " + share + "/bin/* /usr/local/bin/"},
		{"sh", "-c", "install -m 0644 " + share + "/deploy/systemd/* /etc/systemd/system/"},
		{"systemctl", "daemon-reload"},
	} {
		if _, err := run(argv...); err != nil {
			return err
		}
	}
	if err := podImages(); err != nil {
		return err
	}
	_, err := run("systemctl", "enable", "--now", "podconfigd", "podexecd")
	return err
}

// podImages gives containerd the image of the pods, and the one of their sandboxes.
func podImages() error {
	return importImages(map[string][]string{devnode.SampleImage: nil, devnode.PauseImage: {"pause"}})
}

// importImages gives containerd images of the sample program, with these entrypoints.
func importImages(entrypoints map[string][]string) error {
	images := map[name.Tag]v1.Image{}
	for ref, entrypoint := range entrypoints {
		tag, err := name.NewTag(ref)
		image, failed := devnode.BuildSampleImage(share+"/bin/sample", entrypoint...)
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		images[tag] = image
	}
	archive := filepath.Join(os.TempDir(), "images.tar")
	if err := tarball.MultiWriteToFile(archive, images); err != nil {
		return err
	}
	defer func() { _ = os.Remove(archive) }()
	_, err := run("ctr", "--namespace", "k8s.io", "images", "import", archive)
	return err
}
