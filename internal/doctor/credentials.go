package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// credentials checks whether the API server accepts this node's credentials.
func (e *examination) credentials(ctx context.Context) []Finding {
	path := e.Podexec.Settings.Kubeconfig
	if path == "" {
		return []Finding{{"credentials", Skipped, "podexecd has no --kubeconfig: this node is standalone", ""}}
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if boot := e.Podexec.Settings.BootstrapKubeconfig; boot != "" {
			return []Finding{{
				"credentials", Warning, path + " isn't there yet: podexecd asks for a certificate by " + boot,
				"approve it: kubectl get csr, kubectl certificate approve NAME",
			}}
		}
		return []Finding{{"credentials", Failed, path + " isn't there", "put the node's kubeconfig there, or give podexecd --bootstrap-kubeconfig"}}
	}
	if err != nil {
		return []Finding{{"credentials", Failed, err.Error(), "run podctl as root"}}
	}
	var found []Finding
	if info.Mode().Perm()&0o077 != 0 {
		found = append(found, Finding{"credentials", Warning, fmt.Sprintf("%s may be read by others (%v)", path, info.Mode().Perm()), "chmod 600 " + path})
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return append(found, Finding{"credentials", Failed, err.Error(), "mend " + path})
	}
	return append(found, e.identity(ctx, config))
}

// soon is the time before a certificate's end from which doctor warns.
const soon = 7 * 24 * time.Hour

// certificates checks the validity of podexecd's certificates.
func (e *examination) certificates(context.Context) []Finding {
	s := e.Podexec.Settings
	var found []Finding
	for _, c := range []struct {
		what, path, advice string
		always             bool
	}{
		{"client", filepath.Join(s.CertDir, "kubelet-client-current.pem"),
			"see whether the API server is reached, and whether requests wait to be approved: kubectl get csr", s.Kubeconfig != "" && s.RotateCertificates},
		{"serving", filepath.Join(s.CertDir, "kubelet-server-current.pem"), "approve it: kubectl get csr, kubectl certificate approve NAME", s.ServerTLSBootstrap && s.EnableServer},
		{"serving", s.TLSCertFile, "put a new one there; podexecd reads it again", s.TLSCertFile != ""},
		{"client CA", s.Authentication.ClientCAFile, "put the CA of the API server's kubelet client there (--client-ca-file); podexecd reads it again",
			s.Authentication.ClientCAFile != ""},
	} {
		if !c.always {
			continue
		}
		found = append(found, e.certificate(c.what, c.path, c.advice))
	}
	if s.EnableServer && s.Kubeconfig != "" && s.Authentication.ClientCAFile == "" {
		found = append(found, Finding{
			"certificates", Warning, "no --client-ca-file: the API server's certificate means nothing to the node's API",
			"give podexecd --client-ca-file, or kubectl logs and exec are refused",
		})
	}
	if len(found) == 0 {
		found = []Finding{{"certificates", Skipped, "podexecd keeps none that expire", ""}}
	}
	return found
}

func (e *examination) certificate(what, path, advice string) Finding {
	text, err := os.ReadFile(path)
	if err != nil {
		return Finding{"certificates", Failed, fmt.Sprintf("%s: %v", what, err), advice}
	}
	var first *x509.Certificate
	for block, rest := pem.Decode(text); block != nil && first == nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			if first, err = x509.ParseCertificate(block.Bytes); err != nil {
				return Finding{"certificates", Failed, fmt.Sprintf("%s %s: %v", what, path, err), advice}
			}
		}
	}
	if first == nil {
		return Finding{"certificates", Failed, fmt.Sprintf("%s %s has no certificate", what, path), advice}
	}
	left := first.NotAfter.Sub(e.Now())
	text1 := fmt.Sprintf("%s %s, of %s, until %s", what, path, first.Subject.CommonName, first.NotAfter.UTC().Format(time.RFC3339))
	switch {
	case left < 0:
		return Finding{"certificates", Failed, text1 + ": it has expired", advice}
	case e.Now().Before(first.NotBefore):
		return Finding{"certificates", Failed, text1 + ": it isn't valid yet", "set the clock right"}
	case left < soon && first.NotAfter.Sub(first.NotBefore) > 2*soon:
		return Finding{"certificates", Warning, text1 + ": it expires soon", advice}
	}
	return Finding{"certificates", OK, text1, ""}
}
