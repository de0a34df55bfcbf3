import { useParams } from 'react-router'

export default function Cafes() {
  const { name } = useParams()
  return (
    <main>
      <h1>{name ? `Cafe ${name}` : 'All cafes'}</h1>
      <p>Edition 1</p>
    </main>
  )
}
