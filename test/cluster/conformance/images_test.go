package conformance

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing/fstest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/devnode"
)

// The images' names in registry.k8s.io, as in test/utils/image of Kubernetes v1.37.
const (
	agnhostImage     = "e2e-test-images/agnhost:2.66.1"
	agnhostPrevImage = "e2e-test-images/agnhost:2.55"
	busyboxImage     = "e2e-test-images/busybox:1.37.0-2"
	dnsutilsImage    = "e2e-test-images/glibc-dns-testing:2.1.1"
	nginxImage       = "e2e-test-images/nginx:1.27.0-2"
	nginxNewImage    = "e2e-test-images/nginx:1.28.0-2"
	nonewprivsImage  = "e2e-test-images/nonewprivs:1.4"
	nonrootImage     = "e2e-test-images/nonroot:1.5"
	pauseImage       = "pause:3.10.2"
)

// files are the files of a layer, by path.
type files = fstest.MapFS

func directory(mode fs.FileMode) *fstest.MapFile { return &fstest.MapFile{Mode: fs.ModeDir | mode} }
func text(content string) *fstest.MapFile        { return &fstest.MapFile{Data: []byte(content), Mode: 0o644} }
func link(to string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
}

// program returns a file of this machine.
func program(path string, mode fs.FileMode) (*fstest.MapFile, error) {
	content, err := os.ReadFile(path)
	return &fstest.MapFile{Data: content, Mode: mode}, err
}

// contents is what an image has besides busybox's files.
type contents struct {
	config v1.Config
	added  files
}

// buildImages builds all images, and those of more, by their names, for a node whose shell is nodeShell. If a spec works with any web server or any shell instead of the named one,
// busybox is used.
func buildImages(ctx context.Context, nodeShell, sample string, more map[string]contents) (map[string]v1.Image, error) {
	base, err := busyboxFiles(ctx)
	if err != nil {
		return nil, err
	}
	pause, err := devnode.BuildSampleImage(sample, "pause")
	if err != nil {
		return nil, err
	}
	agnhost, err := agnhostFiles(ctx, nodeShell, pause)
	if err != nil {
		return nil, err
	}
	nnp, err := program(filepath.Join(tools, "nonewprivs"), fs.ModeSetuid|0o755)
	if err != nil {
		return nil, err
	}
	// Debian's busybox has no flag nocache of dd, which its own shell would run.
	glibc := files{"bin/sh": link("bash")}
	if err := addProgram(ctx, glibc, "usr/bin/dd", "/bin/dd"); err != nil {
		return nil, err
	}
	isAgnhost := v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}}
	isServer := v1.Config{Cmd: []string{"httpd", "-f", "-p", "80", "-h", "/srv"}}
	server := files{"srv/index.html": text("<title>Welcome to nginx!</title>\n")}
	images := map[string]v1.Image{pauseImage: pause}
	all := map[string]contents{
		agnhostImage:     {isAgnhost, agnhost},
		agnhostPrevImage: {isAgnhost, agnhost},
		busyboxImage:     {v1.Config{Cmd: []string{"sh"}}, nil},
		dnsutilsImage:    {v1.Config{Cmd: []string{"sh"}}, glibc},
		nginxImage:       {isServer, server},
		nginxNewImage:    {isServer, server},
		nonewprivsImage:  {v1.Config{Cmd: []string{"nnp"}}, files{"usr/local/bin/nnp": nnp}},
		nonrootImage:     {v1.Config{Cmd: []string{"sh"}, User: "1234"}, nil},
	}
	maps.Copy(all, more)
	for name, image := range all {
		image.config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
		image.config.Labels = map[string]string{"image": name} // makes each image different
		if images[name], err = buildImage(image.config, base, image.added); err != nil {
			return nil, fmt.Errorf("build %s: %w", name, err)
		}
	}
	return images, nil
}

// busyboxFiles returns a root directory with all of busybox's programs, and bash, which agnhost has too. A
// plain sh is that bash: Debian's patch of busybox makes its shell hide variables whose names are no
// identifiers, which specs look for. /bin/sh is busybox, because specs expect its messages.
func busyboxFiles(ctx context.Context) (files, error) {
	busybox, err := program("/bin/busybox", 0o755)
	if err != nil {
		return nil, err
	}
	bash, err := program("/bin/bash-static", 0o755)
	if err != nil {
		return nil, err
	}
	list, err := exec.CommandContext(ctx, "/bin/busybox", "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list busybox's programs: %w", err)
	}
	all := files{
		"bin": directory(0o755), "bin/busybox": busybox,
		"etc": directory(0o755), "home": directory(0o755), "root": directory(0o700), "tmp": directory(fs.ModeSticky | 0o777),
		"usr": directory(0o755), "usr/local": directory(0o755), "usr/local/bin": directory(0o755), "var": directory(0o755),
		"etc/passwd": text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"),
		"etc/group":  text("root:x:0:\nnobody:x:65534:\n"),
	}
	for name := range strings.FieldsSeq(string(list)) {
		if name != "busybox" {
			all["bin/"+name] = link("busybox")
		}
	}
	all["bin/bash"], all["usr/local/bin/sh"] = bash, link("/bin/bash")
	return all, nil
}

// agnhostFiles returns what the image agnhost has besides a shell: the program, the user, the certificate and
// the registry that specs need, nodeShell as its nsenter, and the programs curl and nc. Its /bin/sh is bash, because Debian's busybox runs its own
// nc, which has no UDP, instead of the one in PATH.
func agnhostFiles(ctx context.Context, nodeShell string, pause v1.Image) (files, error) {
	agnhost, err := program(filepath.Join(tools, "agnhost"), 0o755)
	if err != nil {
		return nil, err
	}
	pair, err := serverCertificate()
	if err != nil {
		return nil, err
	}
	all := files{
		"agnhost": agnhost, "agnhost-2": link("agnhost"), "uploads": directory(0o755), "bin/sh": link("bash"),
		// Each file has both the certificate and the key; each reader uses the part that it needs.
		"localhost.crt": text(string(pair)), "localhost.key": text(string(pair)),
		"etc/passwd": text("root:x:0:0:root:/root:/bin/sh\nuser-defined-in-image:x:1000:1000::/home:/bin/sh\n"),
		"etc/group":  text("root:x:0:\nuser-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"),
	}
	all["usr/local/bin/nsenter"] = &fstest.MapFile{Data: []byte(nodeShell), Mode: 0o755}
	if err := addPrivateRegistry(all, "var/registry/pause", "testing", pause); err != nil {
		return nil, err
	}
	// /usr/bin comes before busybox's programs in PATH.
	return all, errors.Join(addProgram(ctx, all, "usr/bin/curl", "/usr/bin/curl"), addProgram(ctx, all, "usr/bin/nc", "/bin/nc.openbsd"))
}

// serverCertificate returns a self-signed certificate with its key.
func serverCertificate() ([]byte, error) {
	dir, err := os.MkdirTemp("", "authority")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	authority, err := control.NewAuthority(dir)
	if err != nil {
		return nil, err
	}
	return authority.Issue("localhost", "agnhost", time.Now().Add(control.CertificateLife))
}

// addPrivateRegistry adds an image in the form that agnhost's registry serves with a password.
func addPrivateRegistry(all files, dir, tag string, image v1.Image) error {
	objects, err := objectsOf(image)
	if err != nil {
		return err
	}
	manifest := objects[0]
	all[path.Join(dir, "manifests", tag)] = text(manifest.digest)
	all[path.Join(dir, "manifests", manifest.digest)] = text(string(manifest.content))
	for _, o := range objects[1:] {
		all[path.Join(dir, "blobs", o.digest)] = text(string(o.content))
	}
	return nil
}

// addProgram adds a program of this machine with the libraries that it is linked with.
func addProgram(ctx context.Context, all files, name, path string) error {
	output, err := exec.CommandContext(ctx, "ldd", path).Output()
	if err != nil {
		return fmt.Errorf("find the libraries of %s: %w", path, err)
	}
	if all[name], err = program(path, 0o755); err != nil {
		return err
	}
	for field := range strings.FieldsSeq(string(output)) {
		if library, absolute := strings.CutPrefix(field, "/"); absolute {
			if all[library], err = program(field, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// buildImage makes an image with the files of both, in one layer.
func buildImage(config v1.Config, base, added files) (v1.Image, error) {
	all := maps.Clone(base)
	maps.Copy(all, added)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.AddFS(all); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	return mutate.ConfigFile(image, file)
}
