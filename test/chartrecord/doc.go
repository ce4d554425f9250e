// Command chartrecord records the metrics of a node, for the tests of the dashboard and the rules in deploy. It starts a
// containerd of its own, an API server, an agent, and some static pods, and scrapes the agent's metrics a few times.
// The agent is Podstream, a kubelet, or one after the other with the same pods on the same containerd. make
// charts-record and make charts-compare run it; package test/charts reads the recording.
//
// A recording is a gzipped file with one JSON object in a line for each scrape: see Scrape. It needs root. All that
// it starts ends with it, and nothing remains.
package main
