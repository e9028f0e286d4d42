// How VitePress makes a site of the pages that GitHub shows as well. The pages keep their paths, so that relative links hold in both places.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { join, posix } from 'node:path'
import { slug } from 'github-slugger'

const root = process.env.HEADWAY_ROOT
const repository = 'https://github.com/headway-go/headway'
const menu = JSON.parse(readFileSync(join(root, 'docs/menu.json'), 'utf8'))
const pages = Object.values(menu).flat()

// A page outside the menu would be found by nobody.
for (const name of readdirSync(join(root, 'docs'), { recursive: true })) {
  const page = posix.join('docs', name.replaceAll('\\', '/'))
  if (page.endsWith('.md') && !pages.includes(page)) {
    throw new Error(`docs/menu.json does not have ${page}: add it to one of ${Object.keys(menu).join(', ')}`)
  }
}

// onSite is where the page of a Markdown file is among the sources of the site.
const onSite = (page) => (page === 'README.md' ? 'index.md' : page)
const onGitHub = (page) => (page === 'index.md' ? 'README.md' : page)

const title = (page) => {
  const heading = /^# (.+)$/m.exec(readFileSync(join(root, page), 'utf8'))
  if (!heading) throw new Error(`${page} has no heading`)
  return page === 'README.md' ? 'Overview' : heading[1]
}

const sidebar = Object.entries(menu).map(([text, group]) => ({
  text,
  items: group.map((page) => ({ text: title(page), link: '/' + onSite(page).replace(/(index)?\.md$/, (_, index) => (index ? '' : '.html')) })),
}))

// target is what a link of a page becomes: pages stay on the site, other files of the repository are on GitHub.
const target = (href, from) => {
  if (/^([a-z]+:|#|\/)/i.test(href)) return href
  const [, path, fragment] = /^([^#]*)(#.*)?$/.exec(href)
  const file = posix.join(posix.dirname(onGitHub(from)), decodeURI(path))
  if (pages.includes(file)) return posix.relative(posix.dirname(from), onSite(file)) + (fragment ?? '')
  if (file.startsWith('..') || !existsSync(join(root, file))) throw new Error(`${from}: link to ${href}: no such file`)
  const kind = statSync(join(root, file)).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${file}${fragment ?? ''}`
}

const links = (md) => {
  md.core.ruler.push('headway-links', (state) => {
    for (const token of state.tokens.flatMap((t) => [t, ...(t.children ?? [])])) {
      if (token.type === 'link_open') token.attrSet('href', target(token.attrGet('href'), state.env.relativePath))
      // Vue bundles the image of an HTML tag only if its address says that it is relative.
      if (token.type.startsWith('html_')) token.content = token.content.replace(/(<img [^>]*?src=")(?![./]|https?:)/g, '$1./')
    }
  })
}

export default {
  title: 'Headway',
  description: 'A distributed client-side rate limiter for Go',
  lang: 'en',
  lastUpdated: false,
  markdown: {
    anchor: { slugify: slug }, // as GitHub does, so that links to sections hold in both places
    config: links,
  },
  transformPageData: (page) => ({ filePath: onGitHub(page.filePath) }), // for the link that edits it
  themeConfig: {
    sidebar,
    outline: [2, 3],
    search: { provider: 'local' },
    socialLinks: [{ icon: 'github', link: repository }],
    nav: [
      { text: 'Tutorial', link: '/docs/tutorial.html' },
      { text: 'Go packages', link: 'https://pkg.go.dev/github.com/headway-go/headway' },
    ],
    editLink: { pattern: `${repository}/edit/main/:path`, text: 'Edit this page on GitHub' },
  },
}
