package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/sources/oci/ocitest"
)

// zipped compresses what write writes.
func zipped(t testing.TB, write func(w *tar.Writer)) []byte {
	t.Helper()
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	w := tar.NewWriter(z)
	write(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// entry is a layer with one entry, beside a good manifest.
func entry(t testing.TB, h tar.Header) []byte {
	return zipped(t, func(w *tar.Writer) {
		text := ocitest.Pod("web", "v2")
		good := &tar.Header{Name: "web.yaml", Typeflag: tar.TypeReg, Size: int64(len(text)), Mode: 0o644}
		for _, header := range []*tar.Header{&h, good} {
			if err := w.WriteHeader(header); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHostileLayers: a signed artifact with a layer that isn't harmless is refused. The pods stay, also over a restart.
func TestHostileLayers(t *testing.T) {
	t.Parallel()
	many := zipped(t, func(w *tar.Writer) {
		for i := range 20_000 {
			if err := w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%x.txt", i*7919), Typeflag: tar.TypeReg}); err != nil {
				t.Fatal(err)
			}
		}
	})
	bomb := zipped(t, func(w *tar.Writer) {
		const size = 8 << 20
		if err := w.WriteHeader(&tar.Header{Name: "web.yaml", Typeflag: tar.TypeReg, Size: size}); err != nil {
			t.Fatal(err)
		}
		for range size >> 20 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
	})
	for name, tc := range map[string]struct {
		layer []byte
		want  string
	}{
		"symbolic link": {entry(t, tar.Header{Name: "a.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}), "is a symbolic link"},
		"hard link":     {entry(t, tar.Header{Name: "a.yaml", Typeflag: tar.TypeLink, Linkname: "/etc/shadow"}), "is a hard link"},
		"device":        {entry(t, tar.Header{Name: "a.yaml", Typeflag: tar.TypeBlock}), "is a device"},
		"FIFO":          {entry(t, tar.Header{Name: "a.yaml", Typeflag: tar.TypeFifo}), "is a named pipe"},
		"dot dot":       {entry(t, tar.Header{Name: "../a.yaml", Typeflag: tar.TypeReg}), `has a ".."`},
		"absolute":      {entry(t, tar.Header{Name: "/a.yaml", Typeflag: tar.TypeReg}), "isn't relative"},
		"many entries":  {many, "more than 10000 entries"},
		"bomb":          {bomb, "decompression bomb"},
		"no archive":    {[]byte("hello"), "isn't a complete tar archive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newTrusted(t, Config{})
			digest := n.hub.PutManifest("pods", "prod", ocitest.ManifestType, n.hub.ManifestOf("pods", tc.layer, at(20)))
			n.hub.SignSimple(n.signer, "pods", digest)
			n.stays(name, digest, tc.want)
		})
	}
}

// TestHostileRegistry: whatever a registry does to a node that has credentials for it, the pods stay, and no other host gets
// the credentials.
func TestHostileRegistry(t *testing.T) {
	t.Parallel()
	other := ocitest.New(t, ocitest.Config{})
	redirect := func(part, to string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, part) {
				http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			}
			return strings.Contains(r.URL.Path, part)
		}
	}
	challenge := func(realm string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q", realm))
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
	}
	for name, tc := range map[string]struct {
		act  func(http.ResponseWriter, *http.Request) bool
		want string
	}{
		"a redirect to another host":         {redirect("/manifests/", "https://"+other.Addr+"/x"), "redirect"},
		"a redirect to another port by HTTP": {redirect("/manifests/", "http://localhost:"+strings.TrimPrefix(other.Addr, "127.0.0.1:")+"/x"), "isn't HTTPS"},
		"a redirect to a link-local address": {redirect("/manifests/", "https://169.254.169.254/latest/meta-data"), "link-local"},
		"a redirect to a metadata server":    {redirect("/manifests/", "https://100.100.100.200/latest"), "metadata server"},
		"a redirect of a layer":              {redirect("/blobs/", "https://[fe80::1]/x"), "link-local"},
		"a redirect without end":             {redirect("/manifests/", "/v2/pods/manifests/x"), "too many requests"},
		"a realm at another host":            {challenge("https://registry.example/token"), "asks for the credentials at registry.example"},
		"a realm at a link-local address":    {challenge("http://169.254.169.254/token"), "link-local"},
		"a realm at another port":            {challenge("http://localhost:1/token"), ""},
		"a realm that is no URL":             {challenge("hunter2://\x7f"), "realm"},
		"a challenge without a realm": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", "Bearer x=y")
			w.WriteHeader(401)
			return true
		}, "realm"},
		"an unknown challenge": {func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", "Negotiate hunter2")
			w.WriteHeader(401)
			return true
		}, "status 401"},
		"a digest of something else": {func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodHead {
				w.Header().Set("Docker-Content-Digest", ocitest.Digest([]byte("other")))
				w.Header().Set("Content-Type", ocitest.ManifestType)
				w.Header().Set("Content-Length", "5")
			}
			return r.Method == http.MethodHead
		}, "status 404"},
		"HTML": {func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte("<html>hunter2"))
			return true
		}, "it is neither"},
		"a short answer": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
			panic(http.ErrAbortHandler)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			n := newTrusted(t, Config{})
			credentials := fmt.Sprintf(`{"auths":{%q:{"username":"robot","password":"hunter2"}}}`, n.hub.Addr)
			n.cfg.CredentialsFile = write(t, dir, "config.json", []byte(credentials))
			n.restart()
			n.expect("db.yaml=v1", "web.yaml=v1")
			digest := n.hub.Push("pods", "prod", at(20), pods("web", "v2"))
			n.hub.SignSimple(n.signer, "pods", digest)
			n.hub.Intercept(tc.act)
			n.stays(name, tc.want)
			n.hub.Intercept(nil)
			n.expect("web.yaml=v2")
			if strings.Contains(n.log.String(), "hunter2") {
				t.Errorf("the log has a secret:\n%s", n.log)
			}
		})
	}
	t.Cleanup(func() {
		for _, r := range other.Requests() {
			if r.Header.Get("Authorization") != "" {
				t.Errorf("another host got the credentials: %v", r.Header)
			}
		}
	})
}

// TestFiles: credentials and CAs are read in each reading. A file that can't be used is an error; the pods stay.
func TestFiles(t *testing.T) {
	hub := ocitest.New(t, ocitest.Config{})
	hub.Push("pods", "prod", at(1), pods("web", "v1"))
	hub.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "robot" && password == "hunter2" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	dir := t.TempDir()
	config := func(host, auth string) []byte {
		return fmt.Appendf(nil, `{"auths":{%q:{%s}},"credHelpers":{%q:"evil"}}`, host, auth, host)
	}
	good := config(hub.Addr, `"auth":"cm9ib3Q6aHVudGVyMg=="`)
	n := newNode(t, Config{Reference: hub.Addr + "/pods:prod", CredentialsFile: write(t, dir, "config.json", good)})
	n.expect("web.yaml=v1")
	for name, tc := range map[string]struct {
		text []byte
		want string
	}{
		"another password": {config(hub.Addr, `"username":"robot","password":"x"`), "status 401 Unauthorized: the registry doesn't let these credentials read the repository"},
		"another registry": {config("registry.example", `"auth":"cm9ib3Q6aHVudGVyMg=="`), "config.json: it has none for the repository"},
		"no JSON":          {[]byte("hunter2"), "config.json: it is no docker config"},
		"gone":             {nil, "no such file"},
	} {
		if tc.text != nil {
			write(t, dir, "config.json", tc.text)
		} else if err := os.Remove(filepath.Join(dir, "config.json")); err != nil {
			t.Fatal(err)
		}
		if n.refuses(tc.want); n.serves() != 1 {
			t.Errorf("%s: %d pods are served", name, n.serves())
		}
		write(t, dir, "config.json", good)
		n.expect("web.yaml=v1")
	}
	if err := os.Remove(filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "config.json")); err != nil {
		t.Fatal(err)
	}
	n.refuses("config.json")
	n.cfg.CAFile = filepath.Join(dir, "ca.pem")
	n.restart()
	n.refuses("artifact oci://")
	if strings.Contains(n.log.String(), "hunter2") {
		t.Errorf("the log has a secret:\n%s", n.log)
	}
}
