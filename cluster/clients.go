package cluster

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// Client returns client-go's client of the built-in kinds, the same at each call.
// It speaks protobuf, which these kinds have, unless the config names a content
// type. Kinds of one's own have a [Kind].
// It cannot fail: [New] has checked the config.
func (c *Cluster) Client() kubernetes.Interface {
	c.once.Do(func() {
		config := c.Config()
		if config.ContentType == "" && config.AcceptContentTypes == "" {
			config.ContentType = runtime.ContentTypeProtobuf
			config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		}
		c.client = kubernetes.NewForConfigOrDie(config)
	})
	return c.client
}

// Dynamic returns a client of kinds that are known only at run time. It cannot
// fail: [New] has checked the config.
func (c *Cluster) Dynamic() dynamic.Interface { return dynamic.NewForConfigOrDie(c.Config()) }

// Metadata returns a client of the metadata of any kind. It cannot fail: [New]
// has checked the config.
func (c *Cluster) Metadata() metadata.Interface { return metadata.NewForConfigOrDie(c.Config()) }
