package world

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	containerregistry "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/podstream/podstream/test/devnode"
	"github.com/podstream/podstream/test/inside"
)

// groupedImage has a user worker, 1000, which is a member of the group staff, 5000.
const groupedImage = "localhost/podstream-grouped:dev"

// TestImageGroups: with the policy Strict, a process has only the groups of the manifest. With Merge, it also has those
// that the image gives to its user.
func TestImageGroups(t *testing.T) {
	t.Parallel()
	on(t, containerds, func(t *testing.T, b *bench) {
		importGrouped(t, b)
		runOn(t, b, []row{
			{
				name: "groups of the image merged", spec: grouped("Merge"),
				check: func(r *inside.Report) error { return same("user", ids(r), "1000:1000 [4000 5000]") },
			},
			{
				name: "groups of the image left out", spec: grouped("Strict"),
				check: func(r *inside.Report) error { return same("user", ids(r), "1000:1000 [4000]") },
				needs: supplementalGroupsPolicy, golden: "supplemental-groups-strict",
			},
		})
	})
}

func grouped(policy string) string {
	return `
securityContext: {runAsUser: 1000, supplementalGroups: [4000], supplementalGroupsPolicy: ` + policy + `}
containers: [{name: main, image: "` + groupedImage + `", imagePullPolicy: Never}]`
}

// importGrouped builds the image, and imports it into the bench's runtime.
func importGrouped(t *testing.T, b *bench) {
	t.Helper()
	image, err := devnode.BuildSampleImage(filepath.Join(nodes.binaries.BinDir, "sample"))
	check(t, err)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for path, text := range map[string]string{"etc/passwd": "worker:x:1000:1000::/:\n", "etc/group": "worker:x:1000:\nstaff:x:5000:worker\n"} {
		check(t, w.WriteHeader(&tar.Header{Name: path, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}))
		_, err := io.WriteString(w, text)
		check(t, err)
	}
	check(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	check(t, err)
	image, err = mutate.AppendLayers(image, layer)
	check(t, err)
	check(t, b.Node.ImportImages(t.Context(), map[string]containerregistry.Image{groupedImage: image}))
}

// ownUserVolumes is a pod with its own users, whose volumes are mounted with its IDs: the same files belong to root in
// the pod and on the node.
var ownUserVolumes = row{
	name: "volumes of a pod with users of its own",
	spec: `
hostUsers: false
volumes: [{name: e, emptyDir: {}}, {name: h, hostPath: {path: "{{dir}}"}}, {name: c, configMap: {name: users-own}}]
initContainers: [{name: first, args: [write, /e/f, text], volumeMounts: [{name: e, mountPath: /e}]}]
containers:
- name: main
  volumeMounts: [{name: e, mountPath: /e}, {name: h, mountPath: /h}, {name: c, mountPath: /c}]`,
	beside: []string{"{apiVersion: v1, kind: ConfigMap, metadata: {name: users-own}, data: {key: c}}"},
	paths:  []string{"/e", "/h", "/c/..data/."},
	prepare: func(t *testing.T, p *pod) {
		check(t, os.WriteFile(filepath.Join(p.dir, "root"), []byte("node"), 0o644))
		check(t, os.WriteFile(filepath.Join(p.dir, "user"), []byte("node"), 0o644))
		check(t, os.Chown(filepath.Join(p.dir, "user"), 1000, 1000))
	},
	check: finds(map[string]string{
		"/e": "dir 0777 0:0 writable", "/e/f": `file 0644 0:0 writable "text"`, "/h/root": `file 0644 0:0 writable "node"`,
		"/h/user": `file 0644 1000:1000 writable "node"`, "/c/..data/key": `file 0644 0:0 "c"`,
	}),
	node: func(p *pod, _ map[string]*inside.Report) error {
		path := p.b.KubeletDir("pods", string(p.b.pod(p.name).UID), "volumes", "kubernetes.io~empty-dir", "e", "f")
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return errors.New("no owner")
		}
		return same("the owner on the node", fmt.Sprintf("%d:%d", st.Uid, st.Gid), "0:0")
	},
	needs: userNamespaces, golden: "host-users-false",
}
