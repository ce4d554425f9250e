package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/certtest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// Certificates, authorities and roles change under connected consumers. Consumers that aren't affected keep
// their streams. The others reconnect with their new rights, miss nothing and receive nothing twice (G3, G7).
func TestG7RotationLosesNothing(t *testing.T) {
	t.Parallel()
	e := newExposed(t)
	c := newCrowd(t, e)
	agent := c.watch("agent", client.Config{Endpoint: "tcp://" + e.tcp, TLS: e.clientFiles(e.ca, "agent")}, "file", "other")
	local := c.watch("local", client.Config{Endpoint: "unix://" + e.socket, Consumer: "local"}, "file", "other")
	narrow := c.watch("narrow", client.Config{Endpoint: "tcp://" + e.tcp, TLS: e.clientFiles(e.ca, "narrow")}, "other")
	c.pulse()
	inForce := func(what string, check func() error) {
		t.Helper()
		// podconfigd reads the files every second, and needs two readings.
		c.during(func() { until(t, patience, what, check) })
	}
	streams := func(want ...int32) {
		t.Helper()
		for i, h := range []*honest{agent, local, narrow} {
			if got := h.streams.Load(); got != want[i] {
				t.Errorf("%s is on its stream number %d; want %d", h.name, got, want[i])
			}
		}
	}
	served := func(name string) func() error {
		return func() error {
			defer e.hangUp()
			_, err := listReferences(t.Context(), e.identified(name, "127.0.0.1"))
			return err
		}
	}

	before := serverSerial(t, e)
	e.serverCertificate(e.ca)
	inForce("the new certificate is shown", func() error {
		if serverSerial(t, e) == before {
			return errors.New("it is the old one")
		}
		return nil
	})
	streams(1, 1, 1)

	second := certtest.NewCA(t, "second")
	bySecond := credentials.NewTLS(e.ca.Client(second, certtest.Request{CommonName: "agent"}))
	e.tlsFile("clients.pem", append(append([]byte{}, e.ca.PEM...), second.PEM...))
	inForce("clients of the new authority are accepted", func() error {
		defer e.hangUp()
		_, err := listReferences(t.Context(), e.remote(bySecond, "127.0.0.1"))
		return err
	})
	streams(1, 1, 1)
	e.clientFiles(second, "agent")
	e.clientFiles(second, "narrow")
	c.leave(agent, narrow)
	e.tlsFile("clients.pem", second.PEM)
	e.serverCertificate(second)
	inForce("consumers of the old authority have reconnected with new certificates", func() error {
		if agent.streams.Load() < 2 || narrow.streams.Load() < 2 {
			return errors.New("they aren't")
		}
		return nil
	})
	c.rejoin(agent, narrow)
	e.turnedAway(t, "the old authority", second.Client(e.ca, certtest.Request{CommonName: "agent"}), "tls: bad certificate")
	streams(2, 1, 2)
	e.ca = second

	// A key that doesn't match its certificate changes nothing.
	_, key := e.ca.Issue(certtest.Request{Server: true})
	good, err := os.ReadFile(e.tlsPath("server.key"))
	check(t, err)
	e.tlsFile("server.key", key)
	inForce("the log reports the key", func() error { return fileContains(e.daemon.LogPath, "private key does not match public key") })
	check(t, served("agent")())
	e.tlsFile("server.key", good)

	c.leave(narrow)
	e.tlsFile("access.yaml", []byte(strings.Replace(accessFile, "commonName: narrow,", "commonName: unknown,", 1)))
	inForce("a removed role is rejected", func() error {
		if err := served("narrow")(); status.Code(err) != codes.PermissionDenied {
			return fmt.Errorf("a call: %w", err)
		}
		return nil
	})
	e.tlsFile("access.yaml", []byte(accessFile))
	inForce("a role that is given again works", served("narrow"))
	c.rejoin(narrow)
	c.pulse()
	streams(2, 1, 3)
}

// An expired certificate ends its connection, and a new connection with it is rejected.
func TestG8ExpiryEndsTheStream(t *testing.T) {
	t.Parallel()
	e := newExposed(t)
	// X.509 counts whole seconds. The stream must start before the certificate expires, on a busy machine too.
	expiring := e.ca.Client(e.ca, certtest.Request{CommonName: "agent", NotAfter: time.Now().Add(8 * time.Second)})
	api := e.remote(credentials.NewTLS(expiring), "127.0.0.1")
	watch, err := api.WatchPodUpdates(t.Context(), &podconfigv1.WatchPodUpdatesRequest{})
	check(t, err)
	began := time.Now()
	for err == nil {
		_, err = watch.Recv()
	}
	if took := time.Since(began); status.Code(err) != codes.Unavailable || took > patience {
		t.Errorf("the stream ends after %v with %v; want UNAVAILABLE soon after 8 s", took, err)
	}
	e.turnedAway(t, "the expired certificate", expiring, "tls: bad certificate")
}
