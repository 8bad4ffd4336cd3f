import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.List;
import java.util.TreeMap;
import java.util.jar.JarFile;

/** Prints every option that the Hudi bundle declares: name, default value, older names, class. */
public final class HudiOptions {
  private HudiOptions() {}

  private static final TreeMap<String, String> ROWS = new TreeMap<>();

  public static void main(String[] arguments) throws Exception {
    Class<?> property = Class.forName("org.apache.hudi.common.config.ConfigProperty");
    try (JarFile jar = new JarFile(arguments[0])) {
      List<String> names = jar.stream()
          .map(entry -> entry.getName())
          .filter(name -> name.startsWith("org/apache/") && name.contains("hudi"))
          .filter(name -> name.endsWith(".class"))
          .map(name -> name.substring(0, name.length() - 6).replace('/', '.'))
          .toList();
      for (String name : names) {
        listClass(name, property);
      }
    }
    ROWS.values().forEach(System.out::println);
  }

  private static void listClass(String name, Class<?> property) {
    try {
      Class<?> type = Class.forName(name, false, HudiOptions.class.getClassLoader());
      for (Field field : type.getDeclaredFields()) {
        if (field.getType() == property) {
          boolean isStatic = Modifier.isStatic(field.getModifiers());
          Object owner = isStatic ? null : type.getField("MODULE$").get(null);
          field.setAccessible(true);
          add(type, field.get(owner));
        }
      }
    } catch (LinkageError | ReflectiveOperationException skipped) {
      // A class of an optional part, or no Scala object.
    }
  }

  private static void add(Class<?> type, Object option) throws ReflectiveOperationException {
    if (option == null) {
      return;
    }
    String name = (String) read(option, "key");
    Object older = read(option, "alternatives");
    Object fallback = read(option, "defaultValue");
    String shown = fallback == null ? "" : String.valueOf(fallback);
    String names = String.join(" ", ((List<?>) older).stream().map(String::valueOf).sorted().toList());
    String owner = type.getSimpleName().replace("$", "");
    ROWS.putIfAbsent(name, String.join("\t", name, shown.replaceAll("\\s+", " "), names, owner));
  }

  private static Object read(Object option, String name) throws ReflectiveOperationException {
    Field field = option.getClass().getDeclaredField(name);
    field.setAccessible(true);
    Object value = field.get(option);
    if (name.equals("alternatives") && !(value instanceof List)) {
      return List.of(value instanceof String[] ? (Object[]) value : ((java.util.Collection<?>) value).toArray());
    }
    return value;
  }
}
