package trust

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"github.com/podstream/podstream/internal/openfile"
)

// maxFile is far more than any certificate, key or bundle of CAs has.
const maxFile = 1 << 20

// Trust is the TLS configuration from the configured files. They are compared by content at each Load: a switched
// symbolic link, a rename and a write in place all look alike.
type Trust struct {
	// CAFile has the CAs of the server. Empty: the system's. CertFile and KeyFile are the client certificate, with its
	// chain, and its key. Empty: none.
	CAFile, CertFile, KeyFile string
	// Log gets each change of the files, and why changed ones can't be used.
	Log *slog.Logger

	// config is made from the contents with sum. Nil until the files were good once.
	config *tls.Config
	sum    [sha256.Size]byte
	// problem is what was logged last. Empty if the files are good.
	problem string
}

// Load returns the configuration from the current files. If these aren't good, it returns the last good one.
func (t *Trust) Load() (*tls.Config, error) {
	contents, err := t.read()
	sum := sha256.Sum256(bytes.Join(contents, []byte{0}))
	if err == nil && t.config != nil && sum == t.sum {
		t.recover("they are as before again")
		return t.config, nil
	}
	var config *tls.Config
	if err == nil {
		config, err = t.parse(contents)
	}
	switch {
	case err == nil:
		if t.config != nil {
			t.problem = ""
			t.Log.Info("Changed TLS files are in use")
		}
		t.config, t.sum = config, sum
	case t.config == nil:
		return nil, err
	case err.Error() != t.problem:
		t.problem = err.Error()
		t.Log.Warn("Changed TLS files can't be used; their previous content stays in use", "error", err)
	}
	return t.config, nil
}

func (t *Trust) recover(how string) {
	if t.problem != "" {
		t.problem = ""
		t.Log.Info("TLS files can be used again", "how", how)
	}
}

func (t *Trust) read() ([][]byte, error) {
	var contents [][]byte
	for _, path := range []string{t.CAFile, t.CertFile, t.KeyFile} {
		var data []byte
		if path != "" {
			var err error
			if data, err = readFile(path); err != nil {
				return nil, fmt.Errorf("TLS files: %w", err)
			}
		}
		contents = append(contents, data)
	}
	return contents, nil
}

func (t *Trust) parse(contents [][]byte) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(contents[0]) {
			return nil, fmt.Errorf("TLS files: %s holds no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.X509KeyPair(contents[1], contents[2])
		if err != nil {
			return nil, fmt.Errorf("TLS files: %s and %s: %w", t.CertFile, t.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// readFile reads a regular file. A file that blocks its reader must not stop the source.
func readFile(path string) ([]byte, error) {
	data, err := openfile.Read(context.Background(), path, maxFile)
	var size *openfile.SizeError
	if errors.As(err, &size) {
		return nil, errors.New(path + " is larger than any certificate")
	}
	return data, err
}
