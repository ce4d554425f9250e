package service_test

import "testing"

// TestG11ClusterSet: the cursor after a SET names the replaced clusters as well: without them a consumer refuses it.
func TestG11ClusterSet(t *testing.T) {
	g := startGateway(t, options{})
	g.set("file", "")
	other := at("99")
	other.Cluster, other.Replaced = "d", []string{"c"}
	g.follow(other, other, 0, "x: web(uid=u1)")
	u := g.watch(ahead(at("20"))).want("SET file: u1", "synced")
	if p := u.cursor.GetPositions(); len(p) != 1 || p[0].GetCluster() != "d" || len(p[0].GetReplacedClusters()) != 1 {
		t.Errorf("the positions are %v; want one of the cluster d, which replaces another", p)
	}
}
