package kubeletapi

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

// Run ends streams, also hijacked ones, and returns when all have ended.
func TestEnd(t *testing.T) {
	streaming, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	closed, let := make(chan struct{}), make(chan struct{})
	n := start(t, func(c *Config) {
		c.Streams = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() { ended <- struct{}{} }()
			if r.Header.Get("Upgrade") == "" {
				_, _ = io.WriteString(w, "line\n")
				_ = http.NewResponseController(w).Flush()
				streaming <- struct{}{}
				<-r.Context().Done()
				return
			}
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			streaming <- struct{}{}
			_, _ = io.Copy(io.Discard, c)
			closed <- struct{}{}
			<-let
		})
	})
	client := n.admin()
	followed := make(chan error, 1)
	go func() {
		resp, err := client.Get("https://" + n.address + "/containerLogs/ns/pod/main?follow=true")
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		followed <- err
	}()
	taken, err := tls.Dial("tcp", n.address, n.tls(certificate(n.ca, "admin")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	_, _ = io.WriteString(taken, "POST /exec/ns/pod/main HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
	<-streaming
	<-streaming
	n.stop()
	<-closed
	select {
	case <-n.done:
		t.Error("Run has returned before a handler has")
	case <-time.After(200 * time.Millisecond):
	}
	close(let)
	n.end()
	if len(ended) != 2 {
		t.Errorf("%d of 2 streams have ended as Run returns", len(ended))
	}
	if err := <-followed; err != nil {
		t.Errorf("the followed log: %v", err)
	}
	if c, err := net.DialTimeout("tcp", n.address, time.Second); err == nil {
		_ = c.Close()
		t.Error("the listener is open")
	}
}

// A listener that fails ends the Server.
func TestListenerFails(t *testing.T) {
	l := listen(t)
	s, err := New(Config{Health: []net.Listener{l, listen(t)}})
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := s.Run(t.Context()); err == nil {
		t.Error("Run returns nil; want an error")
	}
}
