package sourceconfig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/sources/apiserver"
)

const (
	kubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	sourcesHead = "apiVersion: podstream.io/v1alpha1\nkind: PodSources\n"
)

// inputs are the files and flags of a case. Drop-ins are /etc/p.d/a.conf, b.conf and so on.
type inputs struct {
	flags   []string
	main    string
	dropIns []string
	// also are further files, by path.
	also map[string]string
}

func (in inputs) plan(t testing.TB) (*Plan, error) {
	t.Helper()
	flags := &Flags{}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.String("config", "", "")
	set.String("config-dir", "", "")
	flags.AddFlags(set)
	args := in.flags
	if in.main != "" {
		args = append([]string{"--config=/etc/p.yaml"}, args...)
	}
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	var files []kubeletconfig.File
	if in.main != "" {
		files = append(files, kubeletconfig.File{Path: "/etc/p.yaml", Data: []byte(in.main)})
	}
	for i, text := range in.dropIns {
		files = append(files, kubeletconfig.File{Path: fmt.Sprintf("/etc/p.d/%c.conf", 'a'+i), Data: []byte(text), DropIn: true})
	}
	return Make(Input{Files: files, Flags: flags, ReadFile: in.read})
}

func (in inputs) read(path string) ([]byte, error) {
	if text, ok := in.also[path]; ok {
		return []byte(text), nil
	}
	if cert, key := certificate(); path == "/pki/cert.pem" || path == "/pki/ca.pem" {
		return []byte(cert), nil
	} else if path == "/pki/key.pem" {
		return []byte(key), nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// certificate is one that signs itself, and its key, in PEM.
var certificate = sync.OnceValues(func() (cert, key string) {
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "me"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &pair.PublicKey, pair)
	if err != nil {
		panic(err)
	}
	raw, err := x509.MarshalECPrivateKey(pair)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}))
})

// text is a plan's sources in one line each: name, location and settings that differ from the default.
func (p *Plan) text() string {
	var lines []string
	for _, s := range p.Sources {
		line := s.Name + " " + s.Location
		if s.File != nil && s.File.CheckFrequency != defaultCheckFrequency {
			line += " " + s.File.CheckFrequency.String()
		}
		if h := s.HTTP; h != nil {
			if h.CheckFrequency != defaultCheckFrequency {
				line += " " + h.CheckFrequency.String()
			}
			if len(h.Headers) > 0 {
				line += " " + fmt.Sprint(h.Headers)
			}
			line += " " + h.CAFile
		}
		if r := s.Relay; r != nil {
			line += " " + r.CertFile + " " + strings.Join(r.Nodes, ",")
		}
		if a := s.API; a != nil {
			line += " " + a.Kubeconfig + " " + strings.Join(a.Nodes, ",")
			if a.ChangeDetection != apiserver.Watch {
				line += " " + string(a.ChangeDetection)
			}
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// kubeconfig leads to a server.
func kubeconfig(server, more string) string {
	return `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "` + server + `"}}]
users: [{name: u, user: {` + more + `}}]
`
}
