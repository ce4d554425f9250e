package contexts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/openfile"
)

// The type of the file.
const (
	APIVersion = "podstream.io/v1alpha1"
	Kind       = "PodctlConfig"
)

// maxSize is the maximum size of the file in bytes.
const maxSize = 1 << 20

// File is the content of podctl.yaml.
type File struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// CurrentContext is the context that commands use without --context. Empty: none.
	CurrentContext string       `json:"currentContext,omitempty"`
	Contexts       []Context    `json:"contexts"`
	Credentials    []Credential `json:"credentials,omitempty"`

	path string
}

// Context is where a node's daemons, or a gateway, are.
type Context struct {
	Name string `json:"name"`
	// PodconfigEndpoint and PodexecEndpoint are what --podconfig-endpoint and --podexec-endpoint take. A context without one of
	// them doesn't have that daemon.
	PodconfigEndpoint string `json:"podconfigEndpoint,omitempty"`
	PodexecEndpoint   string `json:"podexecEndpoint,omitempty"`
	// Credentials is the name of the credential for TCP endpoints. Empty: it has none.
	Credentials string `json:"credentials,omitempty"`
	// TLSServerName is what --tls-server-name takes.
	TLSServerName string `json:"tlsServerName,omitempty"`
}

// Credential are the files of --tls-cert-file, --tls-private-key-file and --tls-ca-file. Relative paths are relative to the
// directory of podctl.yaml.
type Credential struct {
	Name     string `json:"name"`
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
	CAFile   string `json:"caFile,omitempty"`
}

// Load reads and checks a file. endpoint returns why a text isn't an endpoint. The error wraps fs.ErrNotExist if there is no
// file.
func Load(ctx context.Context, path string, endpoint func(string) error) (*File, error) {
	data, err := read(ctx, path)
	if err != nil {
		return nil, err
	}
	return parse(path, data, endpoint)
}

func parse(path string, data []byte, endpoint func(string) error) (*File, error) {
	file := &File{path: path}
	if err := file.decode(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := file.validate(endpoint); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for i := range file.Credentials {
		c := &file.Credentials[i]
		for _, name := range []*string{&c.CertFile, &c.KeyFile, &c.CAFile} {
			if *name != "" && !filepath.IsAbs(*name) {
				*name = filepath.Join(filepath.Dir(path), *name)
			}
		}
	}
	return file, nil
}

// read reads a regular file that only its owner, the caller or root, may write.
func read(ctx context.Context, path string) ([]byte, error) {
	f, err := openfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := errors.Join(checkOwner(f, os.Geteuid()), checkDirectory(f)); err != nil {
		return nil, err
	}
	data, err := openfile.ReadAll(ctx, f, maxSize)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// checkOwner refuses an open file that another user than the caller or root can change.
func checkOwner(f *os.File, caller int) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil { //nolint:gosec // A descriptor is small.
		return fmt.Errorf("check the owner of %s: %w", f.Name(), err)
	}
	const writableByOthers = unix.S_IWGRP | unix.S_IWOTH
	switch {
	case st.Uid != 0 && int(st.Uid) != caller:
		return fmt.Errorf("%s is refused: it belongs to user %d, and not to you or root; it decides where your commands go", f.Name(), st.Uid)
	case st.Mode&writableByOthers != 0:
		return fmt.Errorf("%s is refused: a group or others may write to it, and it decides where your commands go: chmod 600 %s", f.Name(), f.Name())
	}
	return nil
}

// checkDirectory refuses an open file in a directory where any user can replace it, for instance by another file of the same owner.
// In a directory such as /tmp the sticky bit prevents that.
func checkDirectory(f *os.File) error {
	// The name may be a link: the directory of the file itself counts.
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return fmt.Errorf("find the directory of %s: %w", f.Name(), err)
	}
	dir := filepath.Dir(path)
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return fmt.Errorf("check the directory of %s: %w", f.Name(), err)
	}
	if st.Mode&unix.S_IWOTH != 0 && st.Mode&unix.S_ISVTX == 0 {
		return fmt.Errorf("%s is refused: any user may replace files in %s, and it decides where your commands go: chmod o-w %s", f.Name(), dir, dir)
	}
	return nil
}

// decode reads one YAML document. Unknown and doubled fields are errors.
func (f *File) decode(data []byte) error {
	decoder := yamlv3.NewDecoder(bytes.NewReader(data))
	var first, second yamlv3.Node
	if err := decoder.Decode(&first); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the file is empty")
		}
		return err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return errors.New("want one document; there are several")
	}
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return err
	}
	unknown, err := kjson.UnmarshalStrict(text, f)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		return errors.Join(unknown...)
	}
	if f.APIVersion != APIVersion || f.Kind != Kind {
		return fmt.Errorf("want apiVersion: %s and kind: %s; there are %q and %q", APIVersion, Kind, f.APIVersion, f.Kind)
	}
	return nil
}

// validate checks names, references and endpoints.
func (f *File) validate(endpoint func(string) error) error {
	credentials := map[string]bool{}
	for i, c := range f.Credentials {
		switch {
		case !validName(c.Name):
			return fmt.Errorf("credentials[%d].name: %q isn't a name such as node-1", i, c.Name)
		case credentials[c.Name]:
			return fmt.Errorf("credentials[%d].name: there are two credentials %s", i, c.Name)
		case c.CertFile == "" || c.KeyFile == "":
			return fmt.Errorf("credentials[%d]: %s has no certFile, or no keyFile", i, c.Name)
		}
		credentials[c.Name] = true
	}
	contexts := map[string]bool{}
	for i, c := range f.Contexts {
		switch {
		case !validName(c.Name):
			return fmt.Errorf("contexts[%d].name: %q isn't a name such as node-1", i, c.Name)
		case contexts[c.Name]:
			return fmt.Errorf("contexts[%d].name: there are two contexts %s", i, c.Name)
		case c.PodconfigEndpoint == "" && c.PodexecEndpoint == "":
			return fmt.Errorf("contexts[%d]: %s has neither podconfigEndpoint nor podexecEndpoint", i, c.Name)
		case c.Credentials != "" && !credentials[c.Credentials]:
			return fmt.Errorf("contexts[%d].credentials: there are no credentials %s", i, c.Credentials)
		}
		contexts[c.Name] = true
		for _, e := range []struct{ field, text string }{{"podconfigEndpoint", c.PodconfigEndpoint}, {"podexecEndpoint", c.PodexecEndpoint}} {
			if e.text == "" {
				continue
			}
			if err := endpoint(e.text); err != nil {
				return fmt.Errorf("contexts[%d].%s: %s: %w", i, e.field, e.text, err)
			}
		}
	}
	return nil
}

// validName reports whether a name can be that of a context: a DNS name, so that a shell can complete it.
func validName(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

// Context returns a context and its credential, which is empty if it has none. The error lists the contexts that exist.
func (f *File) Context(name string) (Context, Credential, error) {
	for _, c := range f.Contexts {
		if c.Name != name {
			continue
		}
		for _, credential := range f.Credentials {
			if credential.Name == c.Credentials {
				return c, credential, nil
			}
		}
		return c, Credential{}, nil
	}
	return Context{}, Credential{}, f.absent(name)
}

func (f *File) absent(name string) error {
	const some = 10
	names := f.Names()
	if len(names) > some {
		names = append(names[:some:some], "...")
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	return fmt.Errorf("there is no context %q in %s; it has %s", name, f.path, strings.Join(names, ", "))
}

// Names returns the names of the contexts.
func (f *File) Names() []string {
	var names []string
	for _, c := range f.Contexts {
		names = append(names, c.Name)
	}
	return names
}
